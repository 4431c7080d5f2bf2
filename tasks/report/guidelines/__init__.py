"""Reporting guidelines, filled in as far as study, contract and release know; the rest is marked for people.

- ``facts``: Sentences by name that answer a guideline's items, from study, contract and release.
- ``fill``: The guidelines that apply to a release, with every item that its documents answer.
- ``item``: One item of a reporting guideline, and which sentences of ours answer it.
- ``strobe``: STROBE with its extensions RECORD and RECORD-PE, for observational studies of routinely collected health
  data.
- ``target``: TARGET (2025): the target trial, and how the data emulate it.
- ``variables``: Columns in words: what a study and its owner's contract declare of them.
"""

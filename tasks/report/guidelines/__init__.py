"""Reporting guidelines, filled in as far as documents know; the rest is marked for people.

- ``facts``: Sentences by name that answer a guideline's items, from study, contract and release.
- ``fill``: The guidelines that apply to a release, with every item that its documents answer.
- ``items``: Items of reporting guidelines, and which sentences of ours answer them.
- ``variables``: Columns in words: what a study and its owner's contract declare of them.
"""

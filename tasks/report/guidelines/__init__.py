"""Reporting guidelines, filled in as far as documents know; the rest is marked for people.

- ``facts``: Sentences by name that answer a guideline's items, from study, contract and release.
- ``items``: Items of reporting guidelines, and which sentences of ours answer them.
- ``settings``: Settings of an estimator, as a description of a method says them.
- ``times``: Sentences that answer a guideline's items of a study of times to an event.
"""

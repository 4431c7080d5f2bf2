"""Protocols: what they ask, and what their releases say.

- ``answers``: Rows of a release of effects: answers, balance, and the gates that were declared.
- ``study``: Studies of effects: a table of questions, of one row or of many.
"""

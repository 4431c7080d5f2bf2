"""Protocols: what they ask, and what their releases say.

- ``answers``: Rows of a release of effects: answers, balance, and the gates that were declared.
- ``study``: A protocol: several outcomes, subgroups and arms, asked together.
"""

"""Protocols: what they ask, and what their releases say.

- ``answers``: What a protocol's release says: one table of answers, one of balance, and the gates that were declared.
- ``study``: A protocol: several outcomes, subgroups and arms, asked together of one table within one budget.
"""

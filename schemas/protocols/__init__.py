"""Protocols: what they ask, and what their releases say.

- ``answers``: What a protocol's release says: one table of answers, one of balance, and the gates that were declared.
- ``series``: What a series says: the released blocks of one dataset together, and how they change over time.
- ``study``: A protocol: several outcomes, subgroups and arms, asked together of one table within one budget.
- ``where``: Who a study is about: comparisons of declared columns with public values, all of which a unit must meet.
"""

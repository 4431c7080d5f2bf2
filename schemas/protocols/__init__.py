"""Protocols: what they ask, and what their releases say.

- ``answers``: Tables of a protocol's release: its answers, its balance, and the gates that were declared.
- ``study``: A protocol: several outcomes, subgroups and arms, asked together of one table within one budget.
"""

"""Protocols: what they ask, and what their releases say.

- ``answers``: Tables of a protocol's release.
- ``study``: A protocol: several outcomes, subgroups and arms, asked together.
"""

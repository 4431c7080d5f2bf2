"""Protocols at label level: everything but the outcomes is public.

- ``answers``: The table of a protocol at label level, from released numbers and public weights.
- ``draw``: The one draw of a protocol at label level: two numbers of each outcome in each comparison.
- ``weights``: Comparisons of a protocol as rows of their own, and their weights.
"""

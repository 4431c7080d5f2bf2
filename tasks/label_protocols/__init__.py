"""Protocols at label level: everything but the outcomes is public.

- ``answers``: The table of a protocol at label level, from released numbers and public weights.
- ``comparisons``: Each comparison of a protocol as rows of its own: a subgroup, and in it an arm and the reference.
- ``draw``: The one draw of a protocol at label level: two numbers of each outcome in each comparison.
- ``expected``: What a planner can say of a protocol at label level before a row is read, of equal subgroups of a
  stand-in.
- ``weights``: The weights of each comparison, by balancing or by matching; functions of public columns, and so free.
"""

"""Protocols at label level: everything but the outcomes is public.

- ``answers``: The table of a protocol at label level, from released numbers and public weights; and what a planner says
  of it.
- ``draw``: The one draw of a protocol at label level: two numbers of each outcome in each comparison.
- ``weights``: Each comparison of a protocol as rows of its own, and its weights, by balancing or by matching.
"""

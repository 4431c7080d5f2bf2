"""Tables at label level: everything but the outcomes is public.

- ``answers``: Answers of a table at label level, from released numbers and public weights.
- ``draw``: The one draw of a table at label level: two numbers of each outcome in each comparison.
- ``weights``: Comparisons of a table as rows of their own, and their weights.
"""

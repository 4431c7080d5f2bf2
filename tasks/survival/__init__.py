"""Time to event: one release of the cells of all people, and curves and tests read off it.

- ``curves``: The grid of a study of times, and curves of one arm as functions of its cells.
- ``division``: Division of combinations of levels into strata, in a public order.
- ``effects``: Differences between the arms with their intervals, and the log-rank test.
- ``findings``: Curves with bands and the log-rank test, as releases have them.
- ``hidden``: People who are too few to be seen through the noise of a study of times.
- ``joint``: Many questions of one release of cells.
- ``joint_answers``: The table of answers of a study of times, with curves by subgroup and arm.
- ``people``: People of a study of times whom a plan makes of public facts.
- ``pooling``: Pooling of strata of censoring that noise hides.
- ``pseudo``: Pseudo-outcomes of the cells: public tables, made of released cells alone.
- ``stages``: Rows of a study of times, and the one release of their cells.
- ``strata``: Both arms compared within strata, as sites are, each of which counts by its people.
- ``strategy``: Release of the cells.
"""

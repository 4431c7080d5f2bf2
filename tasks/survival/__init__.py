"""Time to event: one release of the cells of all people, and curves and tests read off it.

- ``adjusted``: Adjusted effects.
- ``curves``: The grid of a study of times, and curves of one arm as functions of its cells.
- ``division``: Division of combinations of levels into strata, in a public order.
- ``effects``: Differences between the arms with their intervals, and the log-rank test.
- ``findings``: From noisy cells to what the release says.
- ``hidden``: People who are too few to be seen through the noise of a study of times.
- ``joint``: Many questions of one release of cells.
- ``joint_answers``: A protocol of times.
- ``people``: People of a study or a protocol of times whom a plan makes of public facts.
- ``pooling``: Pooling of strata of censoring that noise hides.
- ``pseudo``: Pseudo-outcomes of the cells: a public table, made of released cells alone.
- ``stages``: The stages of a study of times.
- ``strata``: Both arms compared within strata, as sites are, each of which counts by its people.
- ``strategy``: Release of the cells.
"""

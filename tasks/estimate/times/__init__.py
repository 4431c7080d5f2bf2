"""Time to event: one release of the cells of all people, and what is read off it.

- ``answers``: Answer a table of times, with curves, bands and log-rank tests.
- ``curves``: Count cells of a study of times, release them, and read curves from them.
- ``effects``: Differences between the arms with their intervals, and the log-rank test.
- ``people``: Make the people of a study of times whom a plan speaks of.
- ``pseudo``: Adjust times to an event by pseudo-outcomes of released cells.
- ``releases``: Release the cells of several questions of times together, and pool hidden strata.
- ``strata``: Curves with bands and the log-rank test of both arms, in one stratum or within several.
"""

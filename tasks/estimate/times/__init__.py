"""Time to event: one release of the cells of all people, and what is read off it.

- ``answers``: Answer a table of times: effects, curves with bands, and log-rank tests.
- ``curves``: Count the cells of a study of times, release them, and read curves off them.
- ``effects``: Compare both arms of a study of times: effects, errors of curves, log-rank terms.
- ``people``: Make the planning population of a study of times from public facts.
- ``pseudo``: Adjust effects on times by pseudo-outcomes, which are made of released cells alone.
- ``releases``: Release the cells of several questions of times together, and pool hidden strata.
- ``strata``: Compute curves with bands and the log-rank test of both arms, within strata.
"""

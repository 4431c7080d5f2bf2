"""Covariate adjustment of one question: what it adds to ``tasks/adjustment/``.

- ``expected``: Rehearsal of a regression study: its own releases and steps on simulated people.
- ``stages``: Covariate adjustment of one question: its recipe, and what its last stage says.
"""

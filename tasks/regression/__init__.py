"""Covariate adjustment of one question: what it adds to ``tasks/adjustment/``.

- ``stages``: Covariate adjustment of one question: its recipe, and what its last stage says.
"""

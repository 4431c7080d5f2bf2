"""Covariate adjustment of one question: what it adds to ``tasks/adjustment/``.

- ``stages``: Covariate adjustment of one question.
"""

"""Causal direction between two variables by additive noise models.

- ``answers``: From released draws to directions, and what a plan expects of them.
- ``draws``: Every draw that a direction study makes, from public facts alone.
- ``scores``: Scores of the two directions between two variables.
- ``sensitivity``: Sensitivities of direction finding, and distances for propose-test-release.
- ``stages``: Direction of cause between two variables.
"""

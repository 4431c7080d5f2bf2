"""Randomised trials: the difference of arm means.

- ``difference``: Estimate the difference of arm means, with private or public treatments.
"""

"""Randomised trials: the difference of arm means.

- ``difference``: Estimate the difference of arm means where treatment is public.
"""

"""Randomised trials: the difference of arm means.

- ``difference``: Weigh units for the difference of arm means where treatment is public: all alike.
"""

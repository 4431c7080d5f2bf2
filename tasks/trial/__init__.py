"""Randomised trials: the difference of arm means."""

"""Kusner, Sun, Sridharan & Weinberger 2016, *Private Causal Inference*: `replicate direction`."""

"""Lee, Gresele, Park & Muandet 2019, private weighting and private propensity scores: `replicate weighting`."""

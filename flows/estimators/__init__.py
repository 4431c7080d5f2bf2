"""The order of each estimator's stages, which reads like its paper's algorithm box."""

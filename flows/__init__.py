"""The order of the stages; no arithmetic, no file formats."""

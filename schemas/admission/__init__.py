"""What data must be to be admitted, what is wrong with them, and the manifest of those that were."""

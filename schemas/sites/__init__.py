"""What travels between sites and a coordinator: terms of a round, bundles, pooled releases."""

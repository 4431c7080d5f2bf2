"""Bundles of sites: signing, checking, pooling."""

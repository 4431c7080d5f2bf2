"""Orthogonal regression adjustment from three joint releases on all units."""

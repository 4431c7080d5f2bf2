"""Yuan et al. 2026, private matching: `replicate matching`."""

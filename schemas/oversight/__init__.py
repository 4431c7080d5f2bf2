"""What owners and auditors read: one run's trail, and the desk of all datasets."""

"""What the analyst asks: the study file, and how the owner's contract completes it to a study."""

"""What of adjustment touches rows or noise: sums over rows, their sensitivities, and who pays for them."""

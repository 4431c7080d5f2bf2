"""What a study can be expected to find and cost, from public facts alone: `causalveil plan`."""

"""Engines that run stages: direct calls or Prefect's tasks, with its runners, limits, events and settings."""

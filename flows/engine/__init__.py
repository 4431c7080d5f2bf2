"""What binds stages to an engine: direct calls or Prefect's tasks, its runners, limits, events and settings."""

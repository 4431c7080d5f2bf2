"""The stages: pure functions on arrays, lazy frames and paths; no Prefect."""

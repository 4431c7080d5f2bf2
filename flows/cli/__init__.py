"""The `causalveil` command: arguments in, documents and tables out. No order of stages, no arithmetic."""

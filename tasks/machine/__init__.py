"""The machine beneath: disk, state folder, and work spread over threads or a cluster."""

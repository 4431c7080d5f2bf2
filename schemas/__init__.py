"""What goes in and what comes out: frozen models, no arithmetic on rows, no Prefect."""

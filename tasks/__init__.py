"""One module per stage, in the order data meets them. Pure functions on arrays and lazy frames; no Prefect."""

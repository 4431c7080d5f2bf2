"""The only room where noise is drawn and budget is spent."""

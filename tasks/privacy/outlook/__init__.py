"""What is left of an account, for people: how many runs fit, when a schedule runs dry, how it burned down."""

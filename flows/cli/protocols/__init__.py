"""Commands and screens of protocols."""

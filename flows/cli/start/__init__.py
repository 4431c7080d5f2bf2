"""Commands of the first hour: draft, check, find ranges."""

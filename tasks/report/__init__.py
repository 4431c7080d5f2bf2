"""A release as a page for people."""

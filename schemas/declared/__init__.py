"""What the owner declares of the rows: each column by itself, and how several rows of a unit become one."""

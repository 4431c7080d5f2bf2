"""What the owner declares of the rows: each column by itself, and how several rows of a unit become one.

- ``columns``: What a column of the data holds, as the owner declares it in dataset.yaml.
- ``rows``: How several rows of a unit become one when data are admitted: ``rows`` of dataset.yaml.
"""

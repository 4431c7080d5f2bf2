"""Several rows of a unit become one when data are admitted, before anything else looks at them.

- ``reduce``: All rows of some units -> one row each, by the owner's ``rows``. A unit's row is a function of her own
  rows alone.
- ``spread``: Rows of all partitions -> buckets on disk that hold all rows of their units: two passes, and memory for
  one bucket.
- ``stages``: The stage that makes one row of several, block by block, into a folder of its own that runs read.
"""

"""Data folders in object storage: copies of them, their one writer, and releases put there.

- ``copies``: Read Parquet files in object storage, or copy a data folder from there and back.
- ``writing``: Write to object storage: one writer of a folder at a time, and releases put there.
"""

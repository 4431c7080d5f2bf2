"""Data folders in object storage: copies of them, their one writer, and releases put there.

- ``copies``: Read Parquet files in object storage, or copy a data folder from there and back.
- ``lock``: One writer of a folder in object storage at a time: an object that only one writer can create.
- ``releases``: Releases in object storage: files that were written here are put there, the release only where no other
  lies.
"""

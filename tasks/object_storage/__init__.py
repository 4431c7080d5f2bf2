"""Data folders in object storage.

- ``lock``: One writer of a folder in object storage at a time: an object that only one writer can create.
- ``releases``: Releases in object storage: files that were written here are put there, the release only where no other
  lies.
"""

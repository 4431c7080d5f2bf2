"""Data folders in object storage.

- ``copies``: A data folder in object storage, worked on as a verified copy on this machine's disk.
- ``lock``: One writer of a folder in object storage at a time: an object that only one writer can create.
- ``releases``: Releases in object storage: files that were written here are put there, the release only where no other
  lies.
"""

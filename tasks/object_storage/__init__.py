"""Data folders in object storage.

- ``copies``: A data folder in object storage, worked on as a verified copy on this machine's disk.
"""

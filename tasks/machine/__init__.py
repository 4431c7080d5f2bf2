"""Files, the state folder, and work on partitions over threads or a cluster.

- ``arrays``: Name the arrays and frames that stages exchange, and keep them in files.
- ``distribute``: Distribute work on partitions, and report its progress.
- ``files``: Write files whole or not at all, and let processes wait in line for a file.
- ``folders``: Open folders once, and tell tables with a log of their own from plain folders.
- ``object_storage``: Read Parquet files in object storage, and copy a data folder from there and back.
- ``site``: The operator's settings, the state folder, the acting user's name, and scratch folders.
- ``stored_writes``: Write to object storage: one writer of a folder at a time, and releases put there.
"""

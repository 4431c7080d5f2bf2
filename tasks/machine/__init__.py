"""Files, the state folder, and work on partitions over threads or a cluster.

- ``arrays``: Name the arrays and frames that stages exchange, and keep them in files.
- ``distribute``: Distribute work on partitions, and tell how far it is.
- ``files``: Write files whole or not at all, and let processes wait in line for a file.
- ``folders``: Open folders once, and tell tables with a log of their own from plain folders.
- ``object_storage``: Read from object storage, and write to it.
- ``site``: The operator's settings, the state folder, who works here, and scratch folders.
"""

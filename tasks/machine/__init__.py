"""Files, the state folder, and work on partitions over threads or a cluster.

- ``arrays``: Name the array types that stages exchange, and keep arrays in files.
- ``distribute``: Distribute work on partitions, and tell how far it is.
- ``files``: Write files whole or not at all, and let processes wait in line for a file.
- ``folders``: Open folders once, and tell tables with a log of their own from plain folders.
- ``frames``: Make frames of columns: by plain names, from Arrow, and as CSV for spreadsheets.
- ``site``: The operator's settings, the state folder, who works here, and scratch folders.
"""

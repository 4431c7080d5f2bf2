"""The machine beneath: files, the state folder, work on partitions distributed over threads or a cluster."""

"""From a warehouse to partitions, block by block."""

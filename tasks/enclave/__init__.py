"""From partitions of records to normalised rows in scratch: validation, encoding, split, folds."""

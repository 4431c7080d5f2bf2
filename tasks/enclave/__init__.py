"""From partitions of records to normalised rows in scratch: layout, validation, encoding, split, folds."""

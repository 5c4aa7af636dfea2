"""The index on disk: building it, keeping it whole, searching it."""

"""Retrievers for other people's frameworks, one file each. A file imports its framework; nothing here does."""

"""Readers and writers of the field's file formats: queries, training examples, runs, predictions."""

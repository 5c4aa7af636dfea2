"""The field's files, in and out: queries, training examples, runs, predictions."""

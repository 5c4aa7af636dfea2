"""Words, sentences, answers: everything about text that needs no index and no model."""

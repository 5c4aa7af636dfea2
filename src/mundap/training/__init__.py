"""Training of retrievers and readers. Nothing that answers questions imports it."""

"""Training: data, and what is trained on it. Nothing that answers questions imports this room."""

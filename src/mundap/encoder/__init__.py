"""What turns texts into vectors: at run time, as torch sees it, and between the two."""

"""What turns texts into vectors: at run time, as torch sees it, and between the two."""

LAYOUTS = ("sentence-transformers", "dpr")
"""How `layouts.py` can write an encoder; here, because that file needs torch."""

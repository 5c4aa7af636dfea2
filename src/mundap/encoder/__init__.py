"""The encoder: texts to vectors, at run time (ONNX) and in training (torch), and the way from one to the other."""

LAYOUTS = ("sentence-transformers", "dpr")
"""How `layouts.py` can write an encoder; here, because that file needs torch."""

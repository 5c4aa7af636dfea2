"""Models at run time (tokenizers and onnxruntime, no torch), and how others' checkpoints become ours."""

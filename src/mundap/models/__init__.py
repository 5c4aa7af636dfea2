"""What encoder and reader share: the model folder, the ONNX session, weights and graphs."""

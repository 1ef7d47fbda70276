"""Functions of tensors under PyTorch's top-level names, a file per family."""

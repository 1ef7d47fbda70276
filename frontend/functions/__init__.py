"""Functions of tensors by family, as PyTorch names them.

Each family says in `__all__` what is public at the top level, in METHODS and IN_PLACE what is a
method of Tensor; methods.py attaches those.
"""

"""How PyTorch's namespace is put together where an import is not enough.

methods attaches to Tensor what the families of functions declare, before anything else is
imported. absent and planned make the names that can be imported, and raise when they are used: for
parts of PyTorch that are not here, and for single functions that are not here yet.
"""

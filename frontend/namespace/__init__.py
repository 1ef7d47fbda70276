"""How PyTorch's namespace is put together where an import is not enough.

methods imports the families of functions and attaches to Tensor what they declare. lazily writes
what else is derived from declarations, before anything is imported: lazy_names, the functions of
modules that are imported when one is first asked for, and stubs that show type checkers what
`torch` and `torch.nn.functional` have. stubs is the table of the names that stand for parts
of PyTorch that are not here, absent makes those of them that raise when they are used.

distribution answers `importlib.metadata`.
"""

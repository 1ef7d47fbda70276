"""How PyTorch's namespace is put together where an import is not enough.

methods imports the families of functions and attaches to Tensor what they declare. lazily writes
what else is derived from declarations, before anything is imported: lazy_names, the functions of
modules that are imported when one is first asked for, and stubs that show type checkers what
`torch` and `torch.nn.functional` have. absent and planned make the names that can be imported, and
raise when they are used: for parts of PyTorch that are not here, and for single functions that are
not here yet.
"""

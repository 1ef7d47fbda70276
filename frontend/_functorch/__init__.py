"""`torch._functorch`: how PyTorch's compiler makes backward graphs, of which config names
switches; what packages look for in vmap; Modules as functions of tuples of tensors
(make_functional), and the package functorch, which has them (package)."""

from __future__ import annotations

from frontend._functorch import config as config

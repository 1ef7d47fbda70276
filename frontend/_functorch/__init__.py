"""`torch._functorch`: how PyTorch's compiler makes backward graphs, of which config names
switches; and what packages look for in vmap."""

from __future__ import annotations

from frontend._functorch import config as config

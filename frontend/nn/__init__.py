"""`frontend.nn`: modules, layers, losses and their functional forms, named as PyTorch's.

modules/ are the layers, functional/ the same as functions; parameter and uninitialized are what
Modules register, init fills them. recurrent is what recurrent layers and cells share,
recurrent_functions their forms as functions. _reduction has PyTorch's names for reductions of
losses. geometry, checks and common_types are for arguments.
"""

# ruff: noqa: F401, F403

from __future__ import annotations

from typing import Any

from frontend.nn import functional, init, modules, parameter, utils
from frontend.nn.modules import *
from frontend.nn.parameter import Buffer, Parameter
from graphc.system import import_module

# Imported when first asked for: `import frontend` stays fast.
_MODULES = ("attention", "parallel")
_OF_AO = ("intrinsic", "qat", "quantized")  # what was here before `torch.ao` was
del globals()["attention"]  # the file of layers: `nn.attention` is another module


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"frontend.nn.{name}")
    if name in _OF_AO:
        return import_module(f"frontend.ao.nn.{name}")
    if name in modules.RARE:
        return getattr(modules, name)
    if name == "DataParallel":
        return import_module("frontend.nn.parallel").DataParallel
    raise AttributeError(f"module 'frontend.nn' has no attribute {name!r}")

"""Names that PyTorch defines in one file and the frontend in several:
`torch.nn.modules.loss.MSELoss` is asked for by its place, by code that looks there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphc.system import import_module


def elsewhere(module: str, *others: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module for public names of other ones beside it."""
    package = module.rpartition(".")[0]

    def look(name: str) -> Any:
        for other in others:
            home = import_module(f"{package}.{other}")
            if name in vars(home) and not name.startswith("_"):
                return vars(home)[name]
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return look

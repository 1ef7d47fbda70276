"""Modules that call another one in their own way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def called(module: Any, call: Callable[..., Any]) -> Any:
    """A module whose forward is `call(module, *inputs)`."""
    import torch

    class Called(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *inputs: Any) -> Any:
            return call(self.module, *inputs)

    return Called()

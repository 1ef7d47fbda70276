"""`torch.nn.parallel`: a module on several devices, of which there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from frontend.nn.modules.module import Module
from graphc.system import import_module

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply",
    "replicate", "scatter",
]  # fmt: skip


def _of_devices(name: str) -> Callable[..., NoReturn]:
    def absent(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"torch.nn.parallel.{name}: there are no devices beside the CPU")

    absent.__name__ = absent.__qualname__ = name
    return absent


gather, parallel_apply, replicate, scatter = map(
    _of_devices, ("gather", "parallel_apply", "replicate", "scatter")
)


class DataParallel(Module):
    """`module` as it is, on the CPU; its state dict has "module." before each name."""

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ):
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
    module_kwargs: Any = None,
) -> Any:  # fmt: skip
    """`module(*inputs)`: on the CPU there is nothing to divide."""
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*arguments, **(module_kwargs or {}))


def __getattr__(name: str) -> Any:
    """What belongs to several processes is imported when it is asked for."""
    if name == "distributed":
        return import_module("frontend.nn.parallel.distributed")
    if name == "DistributedDataParallel":
        return import_module("frontend.nn.parallel.distributed").DistributedDataParallel
    raise AttributeError(f"module 'frontend.nn.parallel' has no attribute {name!r}")

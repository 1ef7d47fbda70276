"""`skip_init`: a module without the time and the random numbers of its initialisation."""

from __future__ import annotations

import inspect
from typing import Any

from frontend.nn.modules.module import Module

__all__ = ["skip_init"]


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Any:
    """`module_cls(*args, **kwargs)` with parameters of zeros: it is made on the device "meta", then
    given memory. Raises RuntimeError for what is no Module class, or takes no `device`."""
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    where = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=where)

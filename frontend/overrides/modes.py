"""`TorchFunctionMode`: a block in which all functions of tensors are taken over."""

from __future__ import annotations

from typing import Any

from frontend.overrides.interception import intercept_functions
from frontend.overrides.protocol import OVERRIDING


class TorchFunctionMode:
    """A subclass defines `__torch_function__(self, func, types, args, kwargs)`; inside
    `with mode:` every public function of tensors goes there, also those that take none. While it
    runs, the mode itself is off, and those around it are on. Properties of plain tensors, and what
    a tensor says of itself (`dim()`, `detach()`), do not go there."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        intercept_functions()
        OVERRIDING.swap(OVERRIDING.enabled, (*OVERRIDING.modes, self))
        return self

    def __exit__(self, *error: Any) -> None:
        OVERRIDING.swap(OVERRIDING.enabled, OVERRIDING.modes[:-1])

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """The older way to write `cls(*args, **kwargs)`."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that does what would be done without it."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))

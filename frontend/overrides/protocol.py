"""`__torch_function__`: which arguments of a function take it over, and asking them.

in : a public function and the arguments of a call
out: what the first type that does not answer NotImplemented gives

A type takes part where it has `__torch_function__`, other than Tensor itself and those with
`disabled_torch_function_impl`. Subclasses are asked before their bases, then in the order of the
arguments; lists and tuples among the arguments are looked into, one level deep.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor


class Overriding(threading.local):
    """Of a thread: whether types are asked at all, and the modes that are asked before them."""

    enabled: bool = True
    modes: tuple[Any, ...] = ()

    def swap(self, enabled: bool, modes: tuple[Any, ...]) -> tuple[bool, tuple[Any, ...]]:
        """Set both; what they were."""
        previous = self.enabled, self.modes
        self.enabled, self.modes = enabled, modes
        return previous


OVERRIDING = Overriding()


class DisableTorchFunctionSubclass:
    """A block in which no type is asked; modes are."""

    _keeps_modes = True

    def __enter__(self) -> None:
        modes = OVERRIDING.modes if self._keeps_modes else ()
        self._previous = OVERRIDING.swap(False, modes)

    def __exit__(self, *error: Any) -> None:
        OVERRIDING.swap(*self._previous)


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A block in which neither types nor modes are asked."""

    _keeps_modes = False


def disabled_torch_function_impl(
    cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """`__torch_function__` of a subclass that wants none: it is passed over, and what functions
    give is plain tensors."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


# -- which types ---------------------------------------------------------------------------------


_COMMON = frozenset((Tensor, int, float, bool, str, type(None)))
"""Types of arguments that take no part: most are of these."""


def _takes_over(kind: type) -> bool:
    """Whether a type takes part."""
    if kind is Tensor:
        return False
    method = getattr(kind, "__torch_function__", None)
    function = getattr(method, "__func__", method)
    return function is not None and function is not disabled_torch_function_impl


takes_over: Callable[[type], bool] = functools.cache(_takes_over)


def any_takes_over(values: Iterable[Any]) -> bool:
    """Whether one of these arguments has a type that takes part."""
    for value in values:
        kind = type(value)
        if kind in _COMMON:
            continue
        if kind is list or kind is tuple:
            for item in value:
                if takes_over(type(item)):
                    return True
        elif takes_over(kind):
            return True
    return False


def taking_over(values: Iterable[Any]) -> list[Any]:
    """One argument of each type that takes part, in the order they are asked in."""
    chosen: list[Any] = []
    for value in values:
        for item in value if type(value) in (list, tuple) else (value,):
            kind = type(item)
            if not takes_over(kind) or any(type(other) is kind for other in chosen):
                continue
            places = (i for i, other in enumerate(chosen) if issubclass(kind, type(other)))
            chosen.insert(next(places, len(chosen)), item)
    return chosen


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of these arguments takes a function over, or a mode is there that does."""
    return bool(OVERRIDING.modes) or (OVERRIDING.enabled and any_takes_over(relevant_args))


def has_torch_function_unary(arg: Any) -> bool:
    """`has_torch_function((arg,))`."""
    return has_torch_function((arg,))


def has_torch_function_variadic(*args: Any) -> bool:
    """`has_torch_function(args)`."""
    return has_torch_function(args)


def is_tensor_like(inp: Any) -> bool:
    """Whether this is a Tensor, or something with `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def stacklevel(level: int) -> int:
    """`level` for `warnings.warn`, where frames that ask (see `interception.py`) and those that
    look whether a region of `autocast` is open do not count."""
    frame, counted, actual = sys._getframe(1), 1, 1
    while counted < level and frame.f_back is not None:
        frame, actual = frame.f_back, actual + 1
        asks = frame.f_globals.get("__name__") in WRAPPING
        counted += not (asks or frame.f_code.co_filename == ASKING_FILE)
    return actual


WRAPPING = (
    f"{__package__}.interception",
    "frontend.engine.eager.autocasting",
    "frontend.engine.eager.node_names",
)
"""Modules whose frames stand between a function and its caller."""
ASKING_FILE = "<frontend.overrides>"
"""The file that code which asks says it is from."""


# -- asking --------------------------------------------------------------------------------------


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What modes, or else the types of `relevant_args`, make of `public_api(*args, **kwargs)`.
    Raises TypeError where all answer NotImplemented."""
    chosen = taking_over(relevant_args) if OVERRIDING.enabled else []
    types = tuple(map(type, chosen))
    asked: list[str] = []
    if OVERRIDING.modes:
        *below, mode = OVERRIDING.modes
        previous = OVERRIDING.swap(OVERRIDING.enabled, tuple(below))
        try:
            answer = mode.__torch_function__(public_api, types, args, kwargs)
        finally:
            OVERRIDING.swap(*previous)
        if answer is not NotImplemented:
            return answer
        asked.append(f"in mode {mode}")
    for item in chosen:
        answer = item.__torch_function__(public_api, types, args, kwargs)
        if answer is not NotImplemented:
            return answer
    asked.insert(0, f"on types that implement __torch_function__: {list(types)}")
    name = f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(f"no implementation found for '{name}' {' nor '.join(asked)}")


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """A decorator for functions of one's own: `dispatcher(*args)` gives the arguments that may
    take the function over."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorated


# -- what Tensor does ----------------------------------------------------------------------------


def default_torch_function(
    cls: Any, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
) -> Any:
    """`Tensor.__torch_function__`: the function itself, with tensors among its results made
    instances of the subclass. NotImplemented where another type takes part that is none of its
    bases."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "__get__" and _is_kept(func.__self__):
            return result
        return _converted(result, cls)


def _is_kept(member: Any) -> bool:
    """Whether a property gives a tensor that exists already, and is given as it is."""
    return member in (Tensor.__dict__.get("grad"), Tensor.grad, Tensor._base)


def _converted(result: Any, cls: Any) -> Any:
    if cls is Tensor:
        return result
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, tuple) and hasattr(result, "_fields"):
        return type(result)(*[_converted(item, cls) for item in result])
    if type(result) in (tuple, list):
        return type(result)([_converted(item, cls) for item in result])
    return result


def as_subclass(self: Tensor, cls: Any) -> Any:
    """A view of the tensor, on its tape, that is a `cls`. Raises TypeError for anything but a
    subclass of Tensor."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(f"cls must be a type that inherits from Tensor, not {cls!r}")
    with DisableTorchFunctionSubclass():
        view = self.view_as(self)
    view.__class__ = cls  # the object is what tape and trace know it by
    return view

"""`_foreach_add` and the like: functions of lists of tensors, one after the other, as optimizers
and gradient clipping call them. `NAME` gives a list, `NAME_` changes the tensors in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions import norms, pointwise, unary
from frontend.functions.in_place_variants import in_place as in_place_method

UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor",
    "frac", "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round", "rsqrt",
    "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
BINARY = ("add", "clamp_max", "clamp_min", "div", "maximum", "minimum", "mul", "pow", "sub")
TERNARY = ("addcdiv", "addcmul", "lerp")


def _each(value: Any, count: int) -> Sequence[Any]:
    """One for each tensor: of a list its items, anything else for all."""
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise RuntimeError(
            f"Tensor lists must have the same number of tensors, got {count} and {len(value)}"
        )
    return value


def _tensors(name: str, tensors: Any) -> list[Tensor]:
    if not isinstance(tensors, list | tuple):
        raise TypeError(
            f"{name}(): argument 'self' (position 1) must be tuple of Tensors, not "
            f"{type(tensors).__name__}"
        )
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return list(tensors)


def _of_lists(name: str, function: Callable[..., Tensor], in_place: bool) -> Any:
    full = f"_foreach_{name}{'_' if in_place else ''}"

    def out_of_place(x: Tensor, *others: Any, **named: Any) -> Tensor:
        return _called(name, function, x, list(others), named)

    one = in_place_method(out_of_place) if in_place else out_of_place

    def run(self: Any, *arguments: Any, **keywords: Any) -> Any:
        tensors = _tensors(full, self)
        columns = [_each(value, len(tensors)) for value in _in_order(name, arguments, keywords)]
        named = {key: value for key, value in keywords.items() if key == "alpha"}
        results = []
        for x, *others in zip(tensors, *columns, strict=True):
            results.append(one(x, *others, **named))
        return self if in_place else results

    run.__name__ = run.__qualname__ = full
    run.__doc__ = f"`{name}` of each tensor of a list{', in place' if in_place else ''}."
    return run


def _in_order(name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
    order = ("other", "exponent", "scalar", "scalars", "tensors1", "tensor1", "tensor2", "weight",
             "value")  # fmt: skip
    return [*arguments, *(keywords[key] for key in order if key in keywords)]


def _called(
    name: str, function: Callable[..., Tensor], x: Tensor, others: list[Any], named: dict[str, Any]
) -> Tensor:
    if name in ("addcdiv", "addcmul"):
        return function(x, *others[:2], value=others[2] if len(others) > 2 else 1)
    if name in ("maximum", "minimum") and not isinstance(others[0], Tensor):
        return pointwise.clamp(x, **{"min" if name == "maximum" else "max": others[0]})
    if name in ("add", "sub") and len(others) > 1:
        return function(x, others[0], alpha=others[1])
    return function(x, *others, **named)


def _function(name: str) -> Callable[..., Tensor]:
    if name in ("clamp_max", "clamp_min"):
        side = name.removeprefix("clamp_")
        return lambda x, bound: pointwise.clamp(x, **{side: bound})
    function: Callable[..., Tensor]
    function = getattr(pointwise if hasattr(pointwise, name) else unary, name)
    return function


for _name in (*UNARY, *BINARY, *TERNARY):
    for _ending in (False, True):
        _run = _of_lists(_name, _function(_name), _ending)
        globals()[_run.__name__] = _run


def _foreach_norm(self: Any, ord: float = 2, dtype: Any = None) -> list[Tensor]:
    """The norm of each tensor of a list."""
    return [norms.norm(x, ord, dtype=dtype) for x in _tensors("_foreach_norm", self)]


def _foreach_max(self: Any) -> list[Tensor]:
    """The greatest element of each tensor of a list."""
    return [x.max() for x in _tensors("_foreach_max", self)]


def _foreach_zero_(self: Any) -> Any:
    """0 in all tensors of a list, in place."""
    for x in _tensors("_foreach_zero_", self):
        x.zero_()
    return self


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """The values of the tensors of `src`, in place."""
    tensors = _tensors("_foreach_copy_", self)
    for x, y in zip(tensors, _each(src, len(tensors)), strict=True):
        x.copy_(y)
    return self

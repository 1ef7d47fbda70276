"""Attaches to Tensor what can be done with tensors: each family of functions says in METHODS which
of its names are methods, and in IN_PLACE which have a form that ends in `_`."""

from __future__ import annotations

from typing import Any

from frontend.functions import (
    conversion,
    creation,
    distances,
    einsum,
    in_place,
    in_place_variants,
    index,
    layers,
    layout,
    linalg,
    logic,
    masks,
    matrix,
    order,
    order_statistics,
    pointwise,
    random,
    rearrange,
    reduce,
    repeating,
    sampling,
    scatter,
    select,
    shape,
    special,
    statistics,
    tensor_types,
    unary,
)
from frontend.tensors.tensor import Tensor

FAMILIES = (
    unary, pointwise, special, logic, reduce, statistics, distances, layout, shape, repeating,
    rearrange, matrix, einsum, linalg, in_place, index, masks, scatter, select,
    order, order_statistics, layers, creation, random, sampling,
    conversion, tensor_types,
)  # fmt: skip
"""Modules whose METHODS (and IN_PLACE) names are methods of Tensor."""


def _reflected(function: Any) -> Any:
    return lambda self, other: function(other, self)


def install(target: Any = Tensor) -> None:
    """Attach everything to Tensor."""
    for family in FAMILIES:
        for name in family.METHODS.split():
            setattr(Tensor, name, getattr(family, name))
        for name in getattr(family, "IN_PLACE", "").split():
            setattr(Tensor, f"{name}_", in_place_variants.in_place(getattr(family, name)))
    for name, method in in_place_variants.METHODS.items():
        setattr(Tensor, name, method)
    target.where = lambda self, condition, other: pointwise.where(condition, self, other)
    target.T = property(lambda self: layout.permute(self, *reversed(range(self.dim()))))
    target.mT = property(lambda self: layout.swapped(self, "mT"))
    target.mH = property(lambda self: layout.swapped(self, "mH"))
    target.H = property(layout.hermitian)
    _install_operators(target)


def _guarded(function: Any) -> Any:
    """A binary operator that leaves unknown right-hand sides to Python."""

    def method(self: Tensor, other: Any) -> Any:
        try:
            return function(self, other)
        except TypeError:
            if isinstance(other, Tensor | int | float):
                raise
            return NotImplemented

    return method


def _install_operators(target: Any) -> None:
    f, i = pointwise, in_place_variants.operator
    plain = {
        "add": f.add, "sub": f.sub, "mul": f.mul, "truediv": f.div, "floordiv": f.floor_divide,
        "mod": f.remainder, "pow": f.pow, "matmul": matrix.matmul,
        "and": logic.bitwise_and, "or": logic.bitwise_or, "xor": logic.bitwise_xor,
        "lshift": logic.bitwise_left_shift, "rshift": logic.bitwise_right_shift,
    }  # fmt: skip
    for name, function in plain.items():
        setattr(target, f"__{name}__", function)
        setattr(target, f"__r{name}__", _reflected(function))
        setattr(target, f"__i{name}__", i(function))
    for name in ("lt", "le", "gt", "ge"):
        setattr(target, f"__{name}__", getattr(logic, name))
    target.__eq__ = _guarded(logic.eq)
    target.__ne__ = _guarded(logic.ne)
    target.__neg__ = unary.neg
    target.__pos__ = unary.positive
    target.__abs__ = unary.abs
    target.__invert__ = logic.invert
    target.__getitem__ = index.getitem
    target.__setitem__ = index.setitem


install()

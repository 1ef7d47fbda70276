"""What users say of sizes: which are left open, under what name and between what bounds.

in : `compile(dynamic={"x": {0: "batch"}})`; `mark_dynamic(x, 0, max=64)` of a tensor
out: for a call a rule for each axis that something is said of, held to the sizes of the call
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from frontend.engine.tensors.tensor import Tensor
from graphc.errors import SizeBoundError
from graphc.ir.builder import user_location
from graphc.ir.dims import dim as named_size

LEAST = 2
"""The least size that is left open: code that tells 0 and 1 from others is traced for those."""


class SizeRule(NamedTuple):
    """Of one axis: left open, under this name where it has one, in [least, most]; or never."""

    name: str | None = None
    least: int = LEAST
    most: int | None = None
    static: bool = False


class _Marks:
    """The rules of tensors, by axis, as long as the tensors live."""

    def __init__(self) -> None:
        self._rules: dict[int, tuple[Any, dict[int, SizeRule]]] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def of(self, tensor: Tensor) -> dict[int, SizeRule]:
        known = self._rules.get(id(tensor))
        return {} if known is None or known[0]() is not tensor else known[1]

    def put(self, tensor: Tensor, axis: int, rule: SizeRule) -> None:
        identity = id(tensor)
        held = weakref.ref(tensor, lambda _: self._rules.pop(identity, None))
        self._rules[identity] = (held, {**self.of(tensor), axis: rule})


_MARKS = _Marks()


def mark_dynamic(t: Tensor, index: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Leave the size of dimension `index` (or of several) of a tensor open wherever it is an
    argument of a compiled function, from the first call on: the code serves all sizes from `min`
    (at least 2: sizes of 0 and 1 have code of their own) to `max`. A call with a tensor marked so
    whose size is beyond raises SizeBoundError. Raises TypeError or IndexError for what is no
    dimension, ValueError for bounds without a size between them."""
    for name, bound in (("min", min), ("max", max)):
        if bound is not None and (type(bound) is not int or bound < 0):
            raise TypeError(f"mark_dynamic(): {name} must be a size, not {bound!r}")
    if min is not None and max is not None and max < min:
        raise ValueError(f"mark_dynamic(): no size is from {min} to {max}")
    for axis in _axes("mark_dynamic", t, index):
        _MARKS.put(t, axis, SizeRule(None, min or 0, max))


def mark_static(t: Tensor, index: Any = None) -> None:
    """Never leave the size of dimension `index` (or of several; None: of all) of a tensor open."""
    axes = range(t.dim()) if index is None else _axes("mark_static", t, index)
    for axis in axes:
        _MARKS.put(t, axis, SizeRule(static=True))


def _axes(function: str, t: Any, index: Any) -> list[int]:
    if not isinstance(t, Tensor):
        raise TypeError(f"{function}(): takes a Tensor, not {type(t).__name__}")
    axes = list(index) if isinstance(index, tuple | list | set) else [index]
    rank = len(t.tensor_type.shape)
    for axis in axes:
        if type(axis) is not int:
            raise TypeError(f"{function}(): a dimension is an int, not {axis!r}")
        if not -rank <= axis < rank:
            raise IndexError(f"{function}(): a tensor of {rank} dimensions has no {axis}")
    return [axis % rank for axis in axes]


def checked_names(dynamic: Any) -> None:
    """Raise TypeError for what is no mapping of parameter names to names of sizes by axis."""
    for parameter, axes in dynamic.items():
        if not isinstance(parameter, str) or not isinstance(axes, Mapping):
            raise TypeError(_wrong({parameter: axes}))
        for axis, name in axes.items():
            if type(axis) is not int or not (name is None or isinstance(name, str)):
                raise TypeError(_wrong({parameter: {axis: name}}))
            if name is None:  # open, as one that was seen to differ
                continue
            try:
                named_size(name)
            except SizeBoundError as error:
                raise TypeError(f"dynamic: {error}") from None


def _wrong(part: Any) -> str:
    return (
        f"dynamic takes names of sizes by parameter and axis, {{'x': {{0: 'batch'}}}}, not {part}"
    )


Rules = dict[tuple[int, int], SizeRule]
"""By position among the tensors of a call, and axis."""


def rules_of(dynamic: Any, labels: Sequence[str], leaves: Sequence[Tensor]) -> Rules:
    """The rules for a call with these tensors, whose parameters are called so. Raises
    SizeBoundError where a size is beyond its bounds or is not that of the same name."""
    rules: Rules = {}
    if not _MARKS and not isinstance(dynamic, Mapping):
        return rules
    for position, (label, leaf) in enumerate(zip(labels, leaves)):
        for axis, rule in _MARKS.of(leaf).items():
            rules[position, axis] = rule
        if isinstance(dynamic, Mapping):
            for axis, name in dynamic.get(label, {}).items():
                rule = SizeRule(name) if name is not None else SizeRule(None, 0)
                rules[position, _axes(f"dynamic of {label}", leaf, axis)[0]] = rule
    _check(rules, labels, leaves)
    return rules


def _check(rules: Rules, labels: Sequence[str], leaves: Sequence[Tensor]) -> None:
    known: dict[str, tuple[int, str]] = {}
    for (position, axis), rule in rules.items():
        size = leaves[position].tensor_type.shape[axis]
        where = f"argument {labels[position]!r}, axis {axis}"
        if rule.static:
            continue
        if rule.name is not None:
            other, place = known.setdefault(rule.name, (size, where))
            if other != size:
                raise SizeBoundError(
                    f"{where}: size {rule.name} is {size}, and {other} in {place}",
                    hint="pass equal sizes, or give them names of their own in dynamic=",
                    location=user_location(),
                )
        elif size < rule.least or (rule.most is not None and size > rule.most):
            most = " upward" if rule.most is None else f" to {rule.most}"
            raise SizeBoundError(
                f"{where}: the size is {size}, marked to be from {rule.least}{most}",
                hint="mark_dynamic() with other bounds",
                location=user_location(),
            )

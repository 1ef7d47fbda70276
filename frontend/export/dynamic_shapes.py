"""Which sizes of the arguments are open, as PyTorch's users say it.

in : `dynamic_shapes` (by parameter name, or a tuple in the order of the arguments; for each tensor
     a dict or tuple of `Dim`s by axis), or `dynamic_axes` (by input name, axes or axes with names)
out: names by label of the tensor and axis, which `capture` takes
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from frontend.engine.tensors import tree
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.tracer import labels_of

Names = dict[str, dict[int, str]]


class Dim:
    """A size that is left open, under a name: `Dim("batch")`, `Dim("length", min=2, max=512)`.
    `Dim.AUTO` and `Dim.DYNAMIC` leave one open under a name of its own, `Dim.STATIC` does not."""

    AUTO: Any
    DYNAMIC: Any
    STATIC: Any

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None):
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"the name of a Dim is an identifier, not {name!r}")
        if max is not None and max < (min or 0):
            raise ValueError(f"Dim {name}: no size is from {min} to {max}")
        self.name, self.__name__ = name, name
        self.min, self.max = 0 if min is None else min, max

    def __repr__(self) -> str:
        return f"Dim({self.name!r}, min={self.min}, max={self.max})"


class _Hint:
    """A size that is open, or is not, without a name."""

    def __init__(self, shown: str):
        self.shown = shown

    def __repr__(self) -> str:
        return self.shown


Dim.AUTO, Dim.DYNAMIC, Dim.STATIC = map(_Hint, ("Dim.AUTO", "Dim.DYNAMIC", "Dim.STATIC"))


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several Dims with the same bounds."""
    return tuple([Dim(name, min=min, max=max) for name in names])


def open_sizes(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any],
    dynamic_shapes: Any, dynamic_axes: Any = None, input_names: Any = None,
) -> Names:  # fmt: skip
    """Names of open sizes by label and axis. Raises TypeError and ValueError for what says
    nothing."""
    leaves: list[Tensor] = []
    structure = tree.flatten((args, dict(kwargs)), leaves)
    labels = labels_of(function, structure)
    own = (f"size_{i}" for i in itertools.count())
    if dynamic_axes is not None and dynamic_shapes is None:
        return _by_input(dynamic_axes, input_names, labels, own)
    if dynamic_shapes is None:
        return {}
    names: Names = {}
    if isinstance(dynamic_shapes, Mapping):
        tops = {re.split(r"[\[.]", label)[0]: None for label in labels}
        unknown = dynamic_shapes.keys() - tops.keys() - {*kwargs} - {*labels}
        if unknown and not _are_positions(dynamic_shapes):
            raise ValueError(
                f"dynamic_shapes of {', '.join(map(str, sorted(unknown)))}: the arguments are "
                f"{', '.join(tops)}"
            )
        for label in labels:
            spec = dynamic_shapes.get(label, _found(dynamic_shapes, label))
            _note(names, label, spec, own)
        return names
    specs: list[Any] = []
    _aligned(dynamic_shapes, (*args, *kwargs.values()), specs)
    for label, spec in zip(labels, specs, strict=True):
        _note(names, label, spec, own)
    return names


def _are_positions(spec: Mapping[Any, Any]) -> bool:
    return all(isinstance(key, int) for key in spec)


def _found(specs: Mapping[str, Any], label: str) -> Any:
    """What is said of a tensor inside of an argument: `xs[0].mask` of {"xs": [{"mask": …}]}."""
    top, *parts = [part for part in re.split(r"[\[\].]+", label) if part]
    spec: Any = specs.get(top)
    for part in parts:
        if spec is None:
            return None
        spec = spec[int(part)] if part.isdigit() else spec[part.strip("'\"")]
    return spec


def _aligned(spec: Any, value: Any, specs: list[Any]) -> None:
    """The specifications of the tensors in `value`, in order."""
    if isinstance(value, Tensor):
        specs.append(spec)
    elif isinstance(value, tuple | list):
        parts = [None] * len(value) if spec is None else spec
        if len(parts) != len(value):
            raise ValueError(f"dynamic_shapes has {len(parts)} items for {len(value)} arguments")
        for part, item in zip(parts, value):
            _aligned(part, item, specs)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _aligned(None if spec is None else spec.get(key), item, specs)


def _note(names: Names, label: str, spec: Any, own: Any) -> None:
    if spec is None:
        return
    if isinstance(spec, tuple | list):
        spec = dict(enumerate(spec))
    if not isinstance(spec, Mapping):
        raise TypeError(f"the sizes of {label} are a dict or tuple by axis, not {spec!r}")
    axes: dict[int, str] = {}
    for axis, size in spec.items():
        if size is None or size is Dim.STATIC or (isinstance(size, int) and size >= 0):
            continue
        if isinstance(size, _Hint):
            axes[axis] = next(own)
        elif isinstance(size, Dim | str):
            axes[axis] = size if isinstance(size, str) else size.name
        else:
            raise TypeError(f"axis {axis} of {label}: a Dim, a name or None, not {size!r}")
    if axes:
        names[label] = axes


def _by_input(dynamic_axes: Any, input_names: Any, labels: Sequence[str], own: Any) -> Names:
    """`dynamic_axes` names inputs by `input_names`, or by the parameters; outputs follow by
    themselves."""
    by_name = dict(zip(input_names or (), labels)) | {label: label for label in labels}
    names: Names = {}
    for name, axes in dynamic_axes.items():
        if name in by_name:
            spec = axes if isinstance(axes, Mapping) else {axis: next(own) for axis in axes}
            _note(names, by_name[name], spec, own)
    return names

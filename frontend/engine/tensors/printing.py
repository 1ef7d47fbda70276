"""How tensors print: PyTorch's text, with its options.

Floats of one tensor share a form: whole numbers as `1.`, numbers of a wide range in scientific
notation, all others with `precision` digits. Long tensors show `edgeitems` elements at each end of
each dimension.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import complex_of
from frontend.engine.tensors.state import STATE
from graphc.ir.types import DType
from graphc.records import record, replace

__all__ = ["set_printoptions"]


@record(slots=False)
class PrintOptions:
    """`threshold`: more elements than this are summarised. `sci_mode` None: as the values need."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
_current = [PrintOptions()]


def set_printoptions(
    precision: int | None = None, threshold: float | None = None, edgeitems: int | None = None,
    linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None,
) -> None:  # fmt: skip
    """Set how tensors print from here on. A `profile` ("default", "short", "full") goes first; what
    is None stays, but `sci_mode`, where None means: as the values need."""
    options = _current[0]
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"profile is one of {', '.join(_PROFILES)}, not {profile!r}")
        options = _PROFILES[profile]
    numbers = {
        "precision": precision, "threshold": threshold, "edgeitems": edgeitems,
        "linewidth": linewidth,
    }  # fmt: skip
    changed: dict[str, Any] = {name: value for name, value in numbers.items() if value is not None}
    _current[0] = replace(options, **changed, sci_mode=sci_mode)


def current_options() -> PrintOptions:
    """How tensors print now."""
    return _current[0]


def use_options(options: PrintOptions) -> None:
    """Have tensors print so from here on."""
    _current[0] = options


def numbers_text(tensor: Any, indent: int) -> str:
    """The elements alone. Raises TraceError for a traced tensor."""
    if not tensor.numel():
        return "[]"
    return _body(tensor._array("printing"), tensor.dtype, indent, _current[0])


def tensor_text(tensor: Any) -> str:
    """`tensor([[1., 2.]], grad_fn=<AddBackward0>)`. Raises TraceError for a traced tensor."""
    dtype, options = tensor.dtype, _current[0]
    kind = type(tensor)
    # Tensor stands in another module where the frontend is installed as another package.
    own = kind.__name__ == "Tensor" or kind.__module__.partition(".")[0] == "frontend"
    prefix = "tensor(" if own else f"{kind.__name__}("
    if tensor.is_meta:
        text = prefix + "..."
    elif tensor.numel():
        text = prefix + _body(tensor._array("printing"), dtype, len(prefix), options)
    else:
        text = prefix + "[]"
    return _joined(text, _suffixes(tensor), len(prefix), options.linewidth) + ")"


def _suffixes(tensor: Any) -> list[str]:
    """What stands after the elements."""
    parts = ["device='meta'"] if tensor.is_meta else []
    shape = tensor.tensor_type.shape
    if tensor.is_meta or (0 in shape and len(shape) != 1):
        parts.append(f"size={shape}")
    shows = tensor.numel() and not tensor.is_meta
    default = STATE.default_dtype
    plain = (default, complex_of(default), DType.i64, DType.bool) if shows else (default,)
    if tensor.dtype not in plain:
        parts.append(f"dtype={tensor.dtype}")
    if tensor.grad_fn is not None:
        parts.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        parts.append("requires_grad=True")
    return parts


def _joined(text: str, suffixes: list[str], indent: int, linewidth: int) -> str:
    """`text` with the suffixes, each on the same line where that leaves room for two more."""
    length = len(text.rpartition("\n")[2]) + 2
    for suffix in suffixes:
        if length + len(suffix) + 2 > linewidth:
            text += ",\n" + " " * indent + suffix
            length = indent + len(suffix)
        else:
            text += ", " + suffix
            length += len(suffix) + 2
    return text


def _body(array: np.ndarray, dtype: DType, indent: int, options: PrintOptions) -> str:
    if dtype.is_storage and dtype.is_float:
        with np.errstate(invalid="ignore"):  # signalling NaNs
            array = array.astype(np.float32)
    cut = array.size > options.threshold
    shown = _ends(array, options.edgeitems) if cut else array
    kind = _Complex if dtype.is_complex else _Floats
    style = kind(shown, options) if dtype.is_float else _Plain(shown)
    return _nested(array, style, indent, options, cut)


def _ends(array: np.ndarray, edge: int) -> np.ndarray:
    """The elements of a summarised tensor that are shown."""
    for axis, dim in enumerate(array.shape):
        if dim > 2 * edge:
            array = np.take(array, [*range(edge), *range(dim - edge, dim)], axis)
    return array


class _Plain:
    """Integers and bools, padded to the widest."""

    def __init__(self, array: np.ndarray):
        self.width = max((len(str(item)) for item in array.reshape(-1).tolist()), default=0)

    def text(self, item: Any) -> str:
        return str(item).rjust(self.width)


class _Floats:
    """Floats. The form and the width follow from the finite elements that are not zero."""

    def __init__(self, array: np.ndarray, options: PrintOptions):
        finite = array[np.isfinite(array) & (array != 0)].astype(np.float64)
        sizes = np.abs(finite)
        low, high = (sizes.min(), sizes.max()) if finite.size else (1.0, 1.0)
        self.whole = bool((finite == np.ceil(finite)).all())
        with np.errstate(over="ignore"):
            wide = high / low > 1000.0 or high > 1.0e8 or (not self.whole and low < 1.0e-4)
        self.precision = options.precision
        asked = options.sci_mode if finite.size else None
        self.scientific = bool(wide) if asked is None else asked
        texts = (self._number(item) for item in finite.tolist())
        self.width = max((len(text) for text in texts), default=1)

    def _number(self, item: float) -> str:
        if self.scientific:
            return f"{item:.{self.precision}e}"
        if self.whole:
            return f"{item:.0f}" + ("." if math.isfinite(item) else "")
        return f"{item:.{self.precision}f}"

    def text(self, item: Any) -> str:
        return self._number(item).rjust(self.width)


class _Complex:
    """Complex numbers: each part in the form of all such parts."""

    def __init__(self, array: np.ndarray, options: PrintOptions):
        self.real, self.imag = _Floats(array.real, options), _Floats(array.imag, options)
        self.width = self.real.width + self.imag.width + 1

    def text(self, item: Any) -> str:
        imaginary = f"{self.imag.text(item.imag)}j".lstrip()
        sign = "" if imaginary[0] in "+-" else "+"
        return f"{self.real.text(item.real)}{sign}{imaginary}"


def _nested(
    array: np.ndarray, style: _Plain | _Floats | _Complex, indent: int, options: PrintOptions,
    cut: bool,
) -> str:  # fmt: skip
    if array.ndim == 0:
        return style.text(array.item())
    edge, dim = options.edgeitems, array.shape[0]
    cut_here = cut and dim > 2 * edge
    rows = [*range(edge), *range(dim - edge, dim)] if cut_here else range(dim)
    if array.ndim > 1:
        parts = [_nested(array[i], style, indent + 1, options, cut) for i in rows]
        if cut_here:
            parts.insert(edge, "...")
        return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"
    items = [style.text(array[i].item()) for i in rows]
    if cut_here:
        items.insert(edge, " ...")
    per_line = max(1, (options.linewidth - indent) // (style.width + 2))
    lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"

"""How tensors print: PyTorch's layout, four digits, long ones shortened."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.dtypes import TORCH_NAMES
from frontend.state import STATE
from graphc.ir.types import DType

PRECISION = 4
THRESHOLD = 1000
EDGE = 3
WIDTH = 80


def tensor_text(tensor: Any) -> str:
    """`tensor([[1., 2.]], grad_fn=<AddBackward0>)`. Raises TraceError for a traced tensor."""
    array = tensor._array("printing")
    suffixes = []
    default = {STATE.default_dtype, DType.i64, DType.bool}
    if array.size == 0 and array.ndim != 1:
        suffixes.append(f"size={tuple(array.shape)}")
    if tensor.dtype not in default or (array.size == 0 and tensor.dtype is not STATE.default_dtype):
        suffixes.append(f"dtype={TORCH_NAMES[tensor.dtype]}")
    if tensor._edge is not None:
        suffixes.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor._requires_grad:
        suffixes.append("requires_grad=True")
    prefix = "tensor("
    body = _body(array, len(prefix)) if array.size else "[]"
    line = prefix + body
    for suffix in suffixes:
        last = line.rpartition("\n")[2]
        broken = len(last) + len(suffix) + 3 > WIDTH
        line += (",\n" + " " * len(prefix) if broken else ", ") + suffix
    return line + ")"


def _body(array: np.ndarray, indent: int) -> str:
    texts = _formatter(array)
    return _nested(array, texts, indent, array.size > THRESHOLD)


def _formatter(array: np.ndarray) -> Any:
    """A function from an element to its text, all of one width."""
    shown = _shown(array)
    if array.dtype.kind != "f":
        texts = [str(item) for item in shown.tolist()]
        width = max(map(len, texts), default=0) if array.ndim else 0
        return lambda item: str(item.item()).rjust(width)
    finite = np.abs(shown[np.isfinite(shown) & (shown != 0)].astype(np.float64))
    # A tensor of whole numbers prints `1.`, one of a wide range in scientific form.
    if not finite.size or bool(np.all(finite == np.floor(finite))):
        wide = bool(finite.size) and (finite.max() / finite.min() > 1000.0 or finite.max() > 1e8)
        style = f".{PRECISION}e" if wide else ".0f"
    else:
        low, high = finite.min(), finite.max()
        wide = high / low > 1000.0 or high > 1e8 or low < 1e-4
        style = f".{PRECISION}e" if wide else f".{PRECISION}f"

    def text(item: Any) -> str:
        number = float(item)
        if not np.isfinite(number):
            return str(number)
        return format(number, style) + ("." if style == ".0f" else "")

    # nan and inf do not count: they may stand out, as in PyTorch.
    widths = (len(text(item)) for item in shown if np.isfinite(item))
    width = max(widths, default=0) if array.ndim else 0
    return lambda item: text(item).rjust(width)


def _shown(array: np.ndarray) -> np.ndarray:
    """The elements that will be printed, flat."""
    if array.size > THRESHOLD:
        for axis, dim in enumerate(array.shape):
            if dim > 2 * EDGE:
                keep = np.r_[0:EDGE, dim - EDGE : dim]
                array = np.take(array, keep, axis)
    return array.reshape(-1)


def _nested(array: np.ndarray, text: Any, indent: int, shorten: bool) -> str:
    if array.ndim == 0:
        return text(array)
    dim = array.shape[0]
    cut = shorten and dim > 2 * EDGE
    rows = [*range(EDGE), *range(dim - EDGE, dim)] if cut else range(dim)
    if array.ndim == 1:
        items = [text(array[i]) for i in rows]
        if cut:
            items.insert(EDGE, " ...")
        per_line = max(1, (WIDTH - indent) // (max(map(len, items), default=1) + 2))
        lines = [items[i : i + per_line] for i in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(", ".join(line) for line in lines) + "]"
    parts = [_nested(array[i], text, indent + 1, shorten) for i in rows]
    if cut:
        parts.insert(EDGE, "...")
    return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"

"""`assert_close`: tensors, numbers, and nests of them, within tolerances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import as_tensor
from graphc.ir.types import DType

_TOLERANCES = {
    DType.f16: (1e-3, 1e-5), DType.bf16: (1.6e-2, 1e-5), DType.f32: (1.3e-6, 1e-5),
    DType.f64: (1e-7, 1e-7),
}  # fmt: skip


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None,
    atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
    check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
    msg: Any = None,
) -> None:  # fmt: skip
    """Raises AssertionError unless |actual - expected| ≤ atol + rtol·|expected| everywhere, for
    tensors, numbers, and nests of them; without tolerances, PyTorch's for the dtype. Raises
    ValueError for one tolerance without the other."""
    if (rtol is None) != (atol is None):
        raise ValueError(
            "rtol and atol must both be specified or both be unspecified, but got no "
            f"{'rtol' if rtol is None else 'atol'}"
        )
    options = (rtol, atol, equal_nan, check_dtype, check_stride)
    problem = _difference(actual, expected, options, "")
    if problem is not None:
        raise AssertionError(problem if msg is None else msg(problem) if callable(msg) else msg)


def assert_allclose(actual: Any, expected: Any, rtol: Any = None, atol: Any = None,
                    equal_nan: bool = True, msg: str = "") -> None:  # fmt: skip
    """`assert_close` of whatever dtype."""
    assert_close(
        as_tensor(actual), as_tensor(expected), rtol=rtol, atol=atol, equal_nan=equal_nan,
        check_dtype=False, msg=msg or None,
    )  # fmt: skip


def _difference(actual: Any, expected: Any, options: Any, path: str) -> str | None:
    """What is wrong at `path`, or None."""
    where = f"\n\nThe failure occurred for item {path}" if path else ""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if actual.keys() != expected.keys():
            return f"The keys of the mappings do not match:{where}"
        parts = [(f"{path}[{k!r}]", actual[k], expected[k]) for k in expected]
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{where}"
        parts = [(f"{path}[{i}]", *pair) for i, pair in enumerate(zip(actual, expected))]
    elif actual is None or expected is None:
        return None if actual is expected else f"None mismatch: {actual} is not {expected}{where}"
    else:
        problem = _tensor_difference(actual, expected, options)
        return None if problem is None else problem + where
    for each, left, right in parts:
        problem = _difference(left, right, options, each)
        if problem is not None:
            return problem
    return None


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _tensor_difference(actual: Any, expected: Any, options: Any) -> str | None:
    rtol, atol, equal_nan, check_dtype, check_stride = options
    scalar = not isinstance(actual, Tensor) and not isinstance(expected, Tensor)
    if not scalar and not (isinstance(actual, Tensor) and isinstance(expected, Tensor)):
        raise TypeError(
            f"No comparison pair was able to handle inputs of type {type(actual)} and "
            f"{type(expected)}."
        )
    left, right = (x if isinstance(x, Tensor) else as_tensor(x, dtype=_number_kind(x))
                   for x in (actual, expected))  # fmt: skip
    what = "Scalars" if scalar else "Tensor-likes"
    if left.shape != right.shape:
        return f"The values for attribute 'shape' do not match: {left.shape} != {right.shape}."
    if check_dtype and left.dtype is not right.dtype:
        shown = f"{left.dtype.shown} != {right.dtype.shown}"
        return f"The values for attribute 'dtype' do not match: {shown}."
    if check_stride and left.stride() != right.stride():
        return (
            f"The values for attribute 'stride()' do not match: {left.stride()} != "
            f"{right.stride()}."
        )
    if rtol is None:
        pairs = [_TOLERANCES.get(x.dtype, (0.0, 0.0)) for x in (left, right)]
        rtol, atol = (max(values) for values in zip(*pairs))
    x, y = (np.asarray(each.detach()._array("assert_close()")) for each in (left, right))
    if left.dtype.is_float or right.dtype.is_float:
        x, y = x.astype(np.float64), y.astype(np.float64)
    elif left.dtype is not right.dtype:
        x, y = x.astype(np.int64), y.astype(np.int64)
    close = np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if close.all():
        return None
    return _text(what, x, y, close, rtol, atol)


def _number_kind(value: Any) -> DType | None:
    return DType.f64 if isinstance(value, float) else None


def _text(what: str, x: Any, y: Any, close: Any, rtol: float, atol: float) -> str:
    with np.errstate(all="ignore"):
        distance = np.where(close, 0.0, np.abs(x.astype(np.float64) - y))
        ratio = np.where(close, 0.0, distance / np.abs(y))
    if what == "Scalars":
        return (
            f"Scalars are not close!\n\nExpected {y} but got {x}.\nAbsolute difference: "
            f"{float(distance)} (up to {atol} allowed)\nRelative difference: {float(ratio)} (up to "
            f"{rtol} allowed)"
        )
    count, total = int((~close).sum()), close.size
    lines = [f"Tensor-likes are not {'close' if rtol or atol else 'equal'}!", ""]
    lines.append(f"Mismatched elements: {count} / {total} ({100 * count / total:.1f}%)")
    for name, values, allowed in (("absolute", distance, atol), ("relative", ratio, rtol)):
        place = tuple(int(i) for i in np.unravel_index(np.argmax(values), values.shape))
        lines.append(
            f"Greatest {name} difference: {values[place]} at index {place} "
            f"(up to {allowed} allowed)"
        )
    return "\n".join(lines)

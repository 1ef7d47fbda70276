"""Tensors of numbers in a row: `arange`, `linspace`, `logspace`, and `eye`. Inside a trace they are
constants of the graph."""

from __future__ import annotations

import builtins
import math
import warnings
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.dtypes import CPU, place_of
from frontend.engine.tensors.host_data import overflow
from frontend.engine.tensors.limits import fitting
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.symbolic_numbers import SymInt, is_open
from frontend.engine.tensors.tensor import Tensor, from_data, make
from frontend.functions import pointwise as f
from frontend.functions.arguments import index_of, not_implemented, stored
from frontend.functions.creation_options import check_options, finished, kind_of
from frontend.functions.declarations import public
from graphc.errors import AttributeValueError
from graphc.ir.builder import user_location
from graphc.ir.types import DType, TensorType
from graphc.ops.conversion import convert
from graphc.ops.generate import iota


def _number(name: str, argument: str, value: Any) -> Any:
    """A Python number from a number or a tensor of one element."""
    if isinstance(value, Tensor):
        if value.dim():
            raise RuntimeError(
                f"{name} only supports 0-dimensional start and end tensors, but got {argument} "
                f"with {value.dim()} dimension(s)."
            )
        return value.item()
    if isinstance(value, np.generic):
        return value.item()
    if not isinstance(value, int | float):
        raise TypeError(f"{name}(): argument '{argument}' must be Number, not "
                        f"{type(value).__name__}")  # fmt: skip
    return value


def _in(kind: DType, numbers: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(convert(numbers, kind))


_MISSING: Any = object()


@public()
def arange(
    *bounds: Any, start: Any = _MISSING, end: Any = _MISSING, step: Any = _MISSING, out: Any = None,
    dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`arange(end)`, `arange(start, end, step=1)`: start, start + step, … before `end`. Integers
    give int64, floats the default dtype. Raises RuntimeError where step is 0 or leads away from
    `end`."""
    check_options(device, layout, pin_memory)
    if STATE.mode is None and dtype is out is None and not requires_grad:
        # What loops ask for most: as many whole numbers.
        if (
            place_of(device) is CPU
            and len(bounds) == 1
            and bounds[0].__class__ is int
            and 0 <= bounds[0] < 2**40
        ):
            if start is end is step is _MISSING:
                numbers = np.arange(bounds[0], dtype=np.int64)
                return make(numbers, TensorType(DType.i64, numbers.shape))
    names = ("end",) if len(bounds) == 1 and end is _MISSING else ("start", "end", "step")
    arguments = {"start": start, "end": end, "step": step}
    if len(bounds) > 3 or any(arguments[name] is not _MISSING for name in names[: len(bounds)]):
        raise TypeError(
            f"arange() takes (end) or (start, end, step=1), got {len(bounds)} positional arguments"
        )
    arguments |= dict(zip(names, bounds))
    if arguments["end"] is _MISSING:
        raise TypeError('arange() missing 1 required positional arguments: "end"')
    arguments = {"start": 0, "step": 1} | {k: v for k, v in arguments.items() if v is not _MISSING}
    first, last, by = (
        _number("arange", name, arguments[name]) for name in ("start", "end", "step")
    )
    whole = all(isinstance(x, int) for x in (first, last, by))
    kind = kind_of(dtype, out, DType.i64 if whole else STATE.default_dtype)
    if not kind.is_computed:
        raise not_implemented("arange_cpu", kind)
    _check_range(first, last, by)
    if not kind.is_float:
        first, last, by = _truncated(first), _truncated(last), _truncated(by)
        if by == 0:
            raise AttributeValueError(
                "step must be nonzero in the integers", location=user_location()
            )
        if max(abs(first), abs(last), abs(by)) >= 2**63:
            raise overflow(DType.i64)
    count = -((first - last) // by) if isinstance(by, int) else math.ceil((last - first) / by)
    count = int(count) if isinstance(count, float) else count
    plain = not is_open(first) and not is_open(by) and (first, by) == (0, 1)
    if STATE.mode is not None and (plain or (whole and any(map(is_open, (first, last, by))))):
        counter = kind.computes_as if kind is not DType.bool and plain else DType.i64
        counted = CONTEXT.apply(iota, (), {"shape": (count,), "axis": 0, "dtype": counter})[0]
        result = casted(counted if plain else counted * by + first, kind)
    else:
        result = from_data(_in(kind, first + by * np.arange(count)), copy=False)
    return stored(finished(result, requires_grad, device), out)


def _truncated(number: Any) -> Any:
    return number if type(number) is SymInt else int(number)


def _check_range(first: Any, last: Any, by: Any) -> None:
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if not all(is_open(x) or math.isfinite(x) for x in (first, last)):
        raise RuntimeError(f"unsupported range: {first} -> {last}")
    if (last - first) * by < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")


@public()
def range(
    start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """As `arange`, with `end`, in the default dtype. Deprecated in PyTorch, with its warning."""
    if end is None:
        raise TypeError('range() missing 1 required positional arguments: "end"')
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior "
        "is inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).",
        UserWarning,
        stacklevel=2,
    )
    check_options(device, layout, pin_memory)
    first, last, by = (_number("range", "end", x) for x in (start, end, step))
    _check_range(first, last, by)
    kind = kind_of(dtype, out, STATE.default_dtype)
    count = math.floor((last - first) / by) + 1
    result = from_data(_in(kind, first + by * np.arange(count)), copy=False)
    return stored(finished(result, requires_grad, device), out)


@public()
def linspace(
    start: Any, end: Any, steps: int, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` numbers from `start` to `end`, both included, evenly spaced."""
    check_options(device, layout, pin_memory)
    kind = kind_of(dtype, out, STATE.default_dtype)
    if _is_traced(start, end):
        result = casted(_spaced_in_trace("linspace", kind, start, end, steps), kind)
    else:
        for end_ in (start, end):
            fitting(end_, kind)
        result = from_data(_in(kind, _spaced("linspace", kind, start, end, steps)), copy=False)
    return stored(finished(result, requires_grad, device), out)


def _is_traced(*ends: Any) -> bool:
    """Whether one of them is a tensor whose value is not known, in a trace."""
    mode = STATE.mode
    tensors = [x for x in ends if isinstance(x, Tensor)]
    return mode is not None and any(mode.known(x) is None for x in tensors)


def _end(name: str, argument: str, value: Any, kind: DType) -> Any:
    """`_number` of a traced tensor: in float64, whole for an integer dtype."""
    if not isinstance(value, Tensor):
        return _as_kind(_number(name, argument, value), kind)
    if value.dim():
        _number(name, argument, value)
    kind = DType.i64 if not kind.is_float else kind if kind.is_storage else DType.f64
    return casted(casted(value.detach(), kind), DType.f64)


def _as_kind(number: Any, kind: DType) -> Any:
    """An end of several numbers; in a half type as that has it, as in PyTorch: powers of it are far
    from those of the number itself."""
    if not kind.is_float:
        return int(number)
    fitting(number, kind)
    return float(kind.numpy.type(number)) if kind.is_storage else number


def _spaced_in_trace(name: str, kind: DType, start: Any, end: Any, steps: Any) -> Tensor:
    """`_spaced` where the ends are known only when the graph runs."""
    steps = _steps(name, steps)
    exact = DType.f64 if steps == 1 and kind.is_float else kind
    first, last = _end(name, "start", start, exact), _end(name, "end", end, exact)
    place = from_data(np.arange(steps, dtype=np.float64), copy=False)
    low = from_data(np.arange(steps) < steps // 2 + (steps == 1), copy=False)
    step = (last - first) / max(steps - 1, 1)
    return f.where(low, first + step * place, last - step * (steps - 1 - place))


def _steps(name: str, steps: Any) -> int:
    """How many numbers. Raises TypeError, RuntimeError."""
    steps = steps.item() if isinstance(steps, Tensor) and not steps.dim() else steps
    if not isinstance(steps, int | np.integer) or isinstance(steps, bool):
        raise TypeError(f"{name}(): argument 'steps' must be int, not {type(steps).__name__}")
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    return int(steps)


def _spaced(name: str, kind: DType, start: Any, end: Any, steps: Any) -> np.ndarray:
    """The numbers as float64; between whole ends for an integer dtype."""
    steps = _steps(name, steps)
    ends = ("start", start), ("end", end)
    first, last = (_number(name, which, x) for which, x in ends)
    if steps != 1 or not kind.is_float:
        first, last = _as_kind(first, kind), _as_kind(last, kind)
    place = np.arange(steps)
    step = (last - first) / max(steps - 1, 1)
    with np.errstate(invalid="ignore"):  # between infinite ends they are NaN
        # From both ends, so that both are met exactly.
        return np.where(place < steps // 2 + (steps == 1), first + step * place,
                        last - step * (steps - 1 - place))  # fmt: skip


@public()
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` numbers from base^start to base^end, evenly spaced in the exponent."""
    check_options(device, layout, pin_memory)
    kind = kind_of(dtype, out, STATE.default_dtype)
    if _is_traced(start, end):
        exponents = _spaced_in_trace("logspace", kind, start, end, steps)
        result = casted(f.pow(float(base), exponents), kind)
    else:
        with np.errstate(over="ignore"):
            powers = np.power(float(base), _spaced("logspace", kind, start, end, steps))
            result = from_data(_in(kind, powers), copy=False)
    return stored(finished(result, requires_grad, device), out)


@public()
def eye(
    n: int, m: int | None = None, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """[n, m] (m: n) with ones on the diagonal."""
    check_options(device, layout, pin_memory)
    n, m = index_of(n), index_of(m)
    for name, size in (("n", n), ("m", n if m is None else m)):
        if not isinstance(size, builtins.int | np.integer):
            raise TypeError(f"eye(): argument '{name}' must be int, not {type(size).__name__}")
        if size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    kind = kind_of(dtype, out, STATE.default_dtype)
    result = from_data(np.eye(n, m).astype(kind.numpy), copy=False)
    return stored(finished(result, requires_grad, device), out)

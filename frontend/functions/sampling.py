"""Samples of distributions: as functions of their parameters, and into a tensor in place.

Parameters are checked as far as they are known: values of traced tensors are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import apply_binary, apply_unary, filled
from frontend.engine.eager.promotion import aligned, casted
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.generator import drawn_on
from frontend.engine.tensors.state import STATE, no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import pointwise as f
from frontend.functions.arguments import need_tensors, not_implemented, stored
from frontend.functions.creation_options import check_options, finished, kind_of, shape_of
from frontend.functions.declarations import public
from frontend.functions.matrix import attached
from frontend.functions.order import cumsum, searchsorted, topk
from frontend.functions.random import (
    DIGITS,
    Generator,
    bounds,
    check_range,
    in_memory_order,
    normal_numbers,
    uniform,
    whole_numbers,
)
from frontend.functions.reduce import argmax
from frontend.functions.shape import expand
from frontend.functions.unary import tan
from graphc.ir.types import DType
from graphc.ops import elementwise as e
from graphc.ops.scalar_functions import special


def all_satisfy(condition: Callable[[np.ndarray], Any], *parameters: Tensor) -> bool:
    """Whether the values of parameters satisfy a condition; True for those of a trace or
    on meta."""
    if STATE.mode is not None:
        return True
    known = [p for p in parameters if not p.is_meta]
    return bool(all(np.all(condition(p._array("a check"))) for p in known))


# -- functions of parameters ---------------------------------------------------------------------


@public(method=True)
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Any = None
) -> Tensor:
    """1 with the probability each element of `input` gives (or with `p`), else 0, in the dtype of
    `input`. Raises RuntimeError for probabilities outside of [0, 1]."""
    need_tensors("bernoulli", input=input)
    if p is None and not input.dtype.is_float:
        raise not_implemented("bernoulli_tensor_cpu_p_", input.dtype)
    return stored(_coins(input, input if p is None else p, generator), out)


def _coins(like: Tensor, p: Any, generator: Generator | None) -> Tensor:
    shape = like._sizes
    if isinstance(p, Tensor):
        if not all_satisfy(lambda x: (x >= 0) & (x <= 1), p):
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        p = expand(p.detach(), shape)
    elif not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    # Probabilities of 24 digits are met by as many of one word; a number takes two words each.
    wide = DType.f32 if isinstance(p, Tensor) and p.dtype is not DType.f64 else DType.f64
    with no_grad():
        source = drawn_on(like.device, generator)
        drawn = in_memory_order(like, lambda shape, _: uniform(shape, wide, source))
        return casted(drawn < (casted(p, wide) if isinstance(p, Tensor) else p), like.dtype)


@public(node="NormalBackward1")
def normal(
    mean: Any, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None,
    out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Normal numbers of a mean and a standard deviation: tensors that broadcast, a tensor and a
    number, or two numbers and a `size`. Raises RuntimeError for a negative deviation."""
    tensors = [x for x in (mean, std) if isinstance(x, Tensor)]
    if bool(tensors) != (size is None):
        shown = ", ".join(type(x).__name__ for x in (mean, std, size) if x is not None)
        raise TypeError(
            f"normal() received an invalid combination of arguments - got ({shown}); it takes "
            "mean and std of which one is a Tensor, or two numbers and a size"
        )
    check_options(device, layout, pin_memory)
    if isinstance(std, Tensor):
        if not all_satisfy(lambda x: x >= 0, std):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    kind = tensors[0].dtype if tensors else kind_of(dtype, out, STATE.default_dtype)
    with no_grad():
        if tensors:
            mean, std = aligned((mean, std), kind)
        shape = mean._sizes if tensors else shape_of((size,), "normal()")
        if not kind.is_float:
            if 0 in shape:
                return stored(filled(0, kind, shape), out)
            raise not_implemented("normal_kernel_cpu", kind)
        source = drawn_on(mean.device if tensors else device, generator)
        if not tensors:
            numbers = normal_numbers(shape, kind, source, float(mean), float(std))
        else:
            numbers = normal_numbers(shape, kind, source) * std + mean
    for x in tensors if STATE.grad_enabled else ():
        numbers = attached(numbers, expand(x, shape))
    return finished(stored(numbers, out), requires_grad)


@public(method=True)
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *,
    generator: Generator | None = None, out: Any = None,
) -> Tensor:  # fmt: skip
    """Positions (int64) drawn by the weights `input` [n] or [rows, n]: [num_samples] or
    [rows, num_samples]. Without replacement each position is drawn at most once, those of weight 0
    last. Raises RuntimeError for weights that are negative, not finite, or all 0."""
    need_tensors("multinomial", input=input)
    if input.dim() not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not input.dtype.is_float:
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, got: "
            f"{SCALAR_NAMES[input.dtype]}"
        )
    count = input._sizes[-1]
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > count:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    if isinstance(out, Tensor) and out.dtype is not DType.i64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {SCALAR_NAMES[out.dtype]}")
    _check_weights(input)
    draw = _with_replacement if replacement and num_samples > 1 else _race
    positions = draw(input.detach(), num_samples, generator)
    return positions if out is None else stored(positions, out)


def _check_weights(weights: Tensor) -> None:
    """Raise RuntimeError where no distribution has these weights."""
    array = weights._value
    if STATE.mode is None and array.__class__ is np.ndarray and array.ndim == 1:
        # Of numbers none of which is NaN the least and the greatest say it.
        if array.dtype.kind == "f" and array.size and array.min() >= 0 and 0 < array.max() < np.inf:
            return
    if not all_satisfy(lambda x: np.isfinite(x) & (x >= 0), weights):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not all_satisfy(lambda x: x.sum(-1) > 0, weights):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


def _race(weights: Tensor, count: int, generator: Generator | None) -> Tensor:
    """A race of exponential clocks: the order of arrival is the order of drawing (Efraimidis,
    Spirakis, "Weighted random sampling with a reservoir", 2006)."""
    source = drawn_on(weights.device, generator)
    clocks = casted(_exponential(weights._sizes, source), weights.dtype)
    haste = apply_binary(e.div, weights, clocks)
    return argmax(haste, -1, True) if count == 1 else topk(haste, count, -1)[1]


def _with_replacement(weights: Tensor, count: int, generator: Generator | None) -> Tensor:
    """Where uniform numbers fall among the running sums of the weights."""
    upper = cumsum(weights, -1)
    share = upper / upper[..., -1:]
    source = drawn_on(weights.device, generator)
    drawn = uniform((*weights._sizes[:-1], count), DType.f64, source)
    return f.clamp(searchsorted(share.double(), drawn), max=weights._sizes[-1] - 1)


def _exponential(
    shape: tuple[int, ...], generator: Generator | None, rate: float | None = None
) -> Tensor:
    """Exponential numbers of a rate (None: 1), in f64."""
    fractions = uniform(shape, DType.f64, generator)
    numbers = apply_unary(e.neg, apply_unary(special.log1p, apply_unary(e.neg, fractions)))
    return numbers if rate is None else numbers / rate


# -- in place ------------------------------------------------------------------------------------


def _put(self: Tensor, numbers: Tensor) -> Tensor:
    alike = numbers.tensor_type is self.tensor_type
    return self._assign(numbers if alike else casted(numbers, self.dtype))


def _uniform_f64(self: Tensor, generator: Generator | None) -> Tensor:
    """Numbers in [0, 1) for the elements of a tensor, in f64."""
    source = drawn_on(self.device, generator)
    return in_memory_order(self, lambda shape, _: uniform(shape, DType.f64, source))


def _need(self: Tensor, kernel: str) -> None:
    if not self.dtype.is_float:
        raise not_implemented(kernel, self.dtype)


def _need_continuous(self: Tensor, name: str) -> None:
    if not self.dtype.is_float:
        raise RuntimeError(
            f"{name} distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {SCALAR_NAMES[self.dtype]}"
        )


@public(at="", method=True)
def uniform_(
    self: Tensor, low: float = 0, to: float = 1, *, generator: Generator | None = None,
    **named: float,
) -> Tensor:  # fmt: skip
    """Filled with uniform numbers in [from, to). `from` is the first argument, or by name."""
    low = named.pop("from", low)
    if named:
        raise TypeError(f"uniform_() got an unexpected keyword argument {sorted(named)[0]!r}")
    _need(self, "check_uniform_bounds")
    if low > to:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={to:g}"
        )
    source = drawn_on(self.device, generator)
    return _put(
        self,
        in_memory_order(self, lambda shape, _: uniform(shape, self.dtype, source, low, to)),
    )


@public(at="", method=True)
def normal_(
    self: Tensor, mean: float = 0, std: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Filled with normal numbers."""
    _need(self, "normal_kernel_cpu")
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    source, kind = drawn_on(self.device, generator), self.dtype

    def draw(shape: tuple[int, ...], in_a_row: bool) -> Tensor:
        return normal_numbers(shape, kind, source, mean, std, in_a_row=in_a_row)

    return _put(self, in_memory_order(self, draw))


@public(at="", method=True)
def log_normal_(
    self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None
) -> Tensor:
    """Filled with exp of normal numbers of this mean and standard deviation."""
    _need(self, "log_normal_cpu")
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    with no_grad():
        source = drawn_on(self.device, generator)
        numbers = in_memory_order(
            self,
            lambda shape, _: normal_numbers(shape, DType.f64, source, mean, std, in_a_row=False),
        )
        numbers = f.exp(numbers)
    return _put(self, numbers)


@public(at="", method=True)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Filled with 1 with probability p (a number, or a tensor that broadcasts), else 0."""
    return self._assign(_coins(self, p, generator))


@public(at="", method=True)
def exponential_(self: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Filled with exponential numbers of the rate `lambd`."""
    _need_continuous(self, "Exponential")
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    with no_grad():
        source = drawn_on(self.device, generator)
        numbers = in_memory_order(self, lambda shape, _: _exponential(shape, source, lambd))
    return _put(self, numbers)


@public(at="", method=True)
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Filled with how many tries the first success takes, each with probability p."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    with no_grad():
        numbers = f.ceil(f.log(_uniform_f64(self, generator)) / math.log(1 - p))
    return _put(self, numbers)


@public(at="", method=True)
def cauchy_(
    self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Filled with Cauchy numbers."""
    _need_continuous(self, "Cauchy")
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    with no_grad():
        drawn = _uniform_f64(self, generator)
        numbers = tan((drawn - 0.5) * math.pi) * sigma + median
    return _put(self, numbers)


@public(at="", method=True)
def random_(
    self: Tensor, *limits: int | None, generator: Generator | None = None, **named: int | None
) -> Tensor:
    """Filled with whole numbers: of the whole range of the dtype, of [0, to), or of [from, to),
    where `to=None` is the end of the dtype's range."""
    first: Any = 0
    last: Any = None
    wide = None
    if len(limits) == 1 and not named:
        last = limits[0]
    elif limits or named:
        ends = dict(zip(("from", "to"), limits), **named)
        first, last = ends.pop("from", 0), ends.pop("to", None)
        if ends or len(limits) > 2:
            raise TypeError("random_() takes 'from' and 'to'")
    else:
        wide = self.dtype.itemsize == 8
    if last is None:
        kind = self.dtype
        last = 2 ** DIGITS[kind] + 1 if kind.is_float else bounds(kind)[1] + 1
    check_range(first, last, self.dtype)
    source = drawn_on(self.device, generator)
    numbers = in_memory_order(
        self, lambda shape, _: whole_numbers(first, last, shape, source, wide)
    )
    return _put(self, numbers)

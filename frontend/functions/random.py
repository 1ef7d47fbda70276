"""Random numbers from a counter: element i of a draw depends on (seed, counter + i) alone.

A generator's state is a tensor i64[2] (seed, counter) that each draw advances in place, so a trace
turns it into an input with an aliased output: the same stream eager and compiled. Samples of other
distributions than the uniform, the normal and whole numbers stand in `sampling`.
"""

from __future__ import annotations

import contextlib
import math
import operator
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from frontend.eager.dispatch import CONTEXT
from frontend.eager.promotion import casted
from frontend.eager.uncompiled import joined
from frontend.functions import pointwise as f
from frontend.functions.arguments import not_implemented, stored
from frontend.functions.creation_options import check_options, finished, kind_of, shape_of
from frontend.functions.declarations import public
from frontend.functions.random_fills import box_muller, normal_fill, uniform_fill
from frontend.tensors.dtypes import SCALAR_NAMES, as_dtype
from frontend.tensors.generator import Generator, default_generator, drawn_on
from frontend.tensors.state import STATE, no_grad
from frontend.tensors.tensor import Tensor
from graphc.ir.types import DType
from graphc.ops.generate import random_uniform
from graphc.ops.order import argsort

DIGITS = {DType.f16: 11, DType.bf16: 8, DType.f32: 24, DType.f64: 53}
"""Binary digits of the float dtypes."""
_C_NAMES = {
    DType.u8: "unsigned char", DType.i8: "signed char", DType.i16: "short", DType.i32: "int",
    DType.i64: "int64_t", DType.bool: "bool",
}  # fmt: skip


# -- generators ----------------------------------------------------------------------------------


@public()
def manual_seed(seed: int) -> Generator:
    """Start the default generator's stream of `seed`."""
    return default_generator.manual_seed(int(seed))


@public()
def seed() -> int:
    """Seed the default generator from the operating system; the seed."""
    return default_generator.seed()


@public()
def initial_seed() -> int:
    """The seed the default generator began with."""
    return default_generator.initial_seed()


@public()
def get_rng_state() -> Tensor:
    """The state of the default generator, uint8[16]."""
    return default_generator.get_state()


@public()
def set_rng_state(new_state: Tensor) -> None:
    """Have the default generator go on from a state."""
    default_generator.set_state(new_state)


@public()
@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, *_: Any, **__: Any) -> Iterator[None]:
    """Put the default generator's state back on leaving; unless `enabled`, do nothing."""
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


# -- the numbers everything else is made of ------------------------------------------------------


def _drawn(shape: tuple[int, ...], kind: DType, generator: Generator | None) -> Tensor:
    """Numbers in [0, 1), multiples of 2**-24, in f32 or f64."""
    source = generator or default_generator
    with no_grad():
        numbers, state = CONTEXT.apply(
            random_uniform, (source.state,), {"shape": shape, "dtype": kind}
        )
        source.state._assign(state)
    return numbers


def uniform(
    shape: tuple[int, ...], dtype: DType | None = None, generator: Generator | None = None
) -> Tensor:
    """Numbers in [0, 1) with all the digits of their dtype (f64: 48 binary ones), of `shape`."""
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(f"generator must be a torch.Generator, not {type(generator).__name__}")
    kind = dtype or STATE.default_dtype
    if kind.is_complex:
        return joined(*(uniform(shape, kind.computes_as, generator) for _ in range(2)))
    if kind is DType.f32:
        native = uniform_fill(shape, 0.0, 1.0, generator)
        return _drawn(shape, kind, generator) if native is None else native
    if kind is DType.f64:
        with no_grad():
            high, low = (_drawn(shape, kind, generator) for _ in range(2))
            return high + low * 2.0**-24
    digits = 2.0 ** DIGITS[kind]
    with no_grad():  # cut off, as rounding to fewer digits could give 1
        return casted(f.floor(_drawn(shape, DType.f32, generator) * digits) / digits, kind)


def normal_numbers(
    shape: tuple[int, ...], dtype: DType | None = None, generator: Generator | None = None
) -> Tensor:
    """Standard normal numbers, by Box and Muller's transform ("A note on the generation of random
    normal deviates", 1958) of two uniform draws; complex ones have half of the variance in each
    part."""
    kind = dtype or STATE.default_dtype
    if kind.is_complex:
        parts = [normal_numbers(shape, kind.computes_as, generator) for _ in range(2)]
        with no_grad():
            return joined(*parts) * math.sqrt(0.5)
    with no_grad():
        wide = kind.computes_as
        native = normal_fill(shape, 0.0, 1.0, generator) if wide is DType.f32 else None
        if native is not None:
            return casted(native, kind)
        if wide is DType.f32:
            draws = [uniform(shape, wide, generator) for _ in range(2)]
            return casted(box_muller(*draws), kind)
        radius = f.sqrt(f.log(1 - uniform(shape, wide, generator)) * -2)
        return casted(radius * f.cos(uniform(shape, wide, generator) * (2 * math.pi)), kind)


def whole_numbers(
    low: int, high: int, shape: tuple[int, ...], generator: Generator | None = None
) -> Tensor:
    """int64 in [low, high), of any range that int64 has: up to 2**24 numbers exactly as likely as
    multiples of 2**-24 allow, above that within 2**-63 · (high - low)."""
    count = high - low
    with no_grad():
        if count <= 2**24:
            numbers = uniform(shape, DType.f32, generator).to(DType.f64)
            return casted(f.floor(numbers * count), DType.i64).add(low)
        if count >= 2**63:  # twice as many numbers as there are words: a word and a coin
            half = count // 2
            coin = whole_numbers(0, 2, shape, generator)
            return whole_numbers(0, half, shape, generator).add(low) + coin * half
        words = [
            casted(uniform(shape, DType.f32, generator).to(DType.f64) * 2**24, DType.i64)
            for _ in range(3)
        ]
        bits = words[0] * 2**39 + words[1] * 2**15 + f.floor_divide(words[2], 2**9)
        return f.remainder(bits, count).add(low)


def _need_float(kind: DType, kernel: str) -> None:
    if not kind.is_float or not (kind.is_compiled or kind.is_complex):
        raise not_implemented(kernel, kind)


def _of(sizes: tuple[Any, ...], size: Any, name: str) -> tuple[int, ...]:
    """A shape given as numbers, as one sequence, or by name. Raises TypeError for none."""
    if not sizes and size is None:
        raise TypeError(f"{name} received an invalid combination of arguments: it takes a size")
    return shape_of(sizes if size is None else (*sizes, size), name)


# -- creating tensors ----------------------------------------------------------------------------


@public()
def rand(
    *sizes: Any, size: Any = None, generator: Generator | None = None, out: Any = None,
    dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform in [0, 1)."""
    check_options(device, layout, pin_memory)
    shape, kind = _of(sizes, size, "rand()"), kind_of(dtype, out, STATE.default_dtype)
    _need_float(kind, "check_uniform_bounds")
    return finished(stored(uniform(shape, kind, drawn_on(device, generator)), out), requires_grad)


@public()
def randn(
    *sizes: Any, size: Any = None, generator: Generator | None = None, out: Any = None,
    dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Normal with mean 0 and variance 1."""
    check_options(device, layout, pin_memory)
    shape, kind = _of(sizes, size, "randn()"), kind_of(dtype, out, STATE.default_dtype)
    _need_float(kind, "normal_kernel_cpu")
    drawn = normal_numbers(shape, kind, drawn_on(device, generator))
    return finished(stored(drawn, out), requires_grad)


@public()
def randint(
    low: Any = 0, high: Any = None, size: Any = None, *, generator: Generator | None = None,
    out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Whole numbers in [low, high), int64 unless `dtype` says otherwise; `randint(high, size)`
    starts at 0. Raises RuntimeError for an empty range and for one that the dtype does not hold."""
    check_options(device, layout, pin_memory)
    if size is None and high is not None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if size is None:
        raise TypeError("randint() received an invalid combination of arguments: it takes a size")
    first, last = (_whole("randint()", name, x) for name, x in (("low", low), ("high", high)))
    kind = kind_of(dtype, out, DType.i64)
    check_range(first, last, kind)
    source = drawn_on(device, generator)
    numbers = casted(whole_numbers(first, last, shape_of((size,), "randint()"), source), kind)
    return finished(stored(numbers, out), requires_grad)


def _whole(function: str, name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{function}: argument '{name}' must be int, not {type(value).__name__}"
        ) from None


def check_range(first: int, last: int, kind: DType) -> None:
    """Raise RuntimeError for an empty range, and for one with numbers that `kind` does not hold; a
    float dtype that skips some of them gets PyTorch's warning."""
    if kind.is_float and not kind.is_compiled:
        raise not_implemented("random_update_from_to", kind)
    if first >= last:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={first} >= to={last}"
        )
    if kind.is_float:
        digits = DIGITS[kind]
        for name, value in (("from", first), ("to - 1", last - 1)):
            if not -(2**digits) <= value <= 2**digits:
                warnings.warn(
                    f"{name} is out of bounds [-(2^{digits}), 2^{digits}]: of the whole numbers "
                    f"beyond, {SCALAR_NAMES[kind]} holds only some",
                    UserWarning,
                    stacklevel=3,
                )
        return
    least, greatest = bounds(kind)
    for name, value in (("from", first), ("to - 1", last - 1)):
        if not least <= value <= greatest:
            raise RuntimeError(f"{name} is out of bounds for {_C_NAMES[kind]}")


def bounds(kind: DType) -> tuple[int, int]:
    """The least and the greatest number of an integer dtype, or of bool."""
    if kind is DType.bool:
        return 0, 1
    limits = np.iinfo(kind.numpy)
    return int(limits.min), int(limits.max)


@public()
def randperm(
    n: int, *, generator: Generator | None = None, out: Any = None, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """0 … n-1 in random order, int64 unless `dtype` says otherwise."""
    check_options(device, layout, pin_memory)
    count = _whole("randperm()", "n", n)
    (size,) = shape_of((count,), "randperm()")
    kind = kind_of(dtype, out, DType.i64)
    greatest = 2 ** DIGITS[kind] if kind.is_float else bounds(kind)[1]
    if size - 1 > greatest:
        raise RuntimeError(
            f"n is too large for the result tensor type: {SCALAR_NAMES[kind]} does not hold "
            f"{size - 1}"
        )
    keys = uniform((size,), DType.f64, drawn_on(device, generator))
    order = CONTEXT.apply(argsort, (keys,), {"axis": 0, "descending": False})[0]
    return finished(stored(casted(order, kind), out), requires_grad)


# -- like another tensor -------------------------------------------------------------------------


def _options(input: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a function that makes one like `input`."""
    dtype = options.pop("dtype", None)
    options.pop("memory_format", None)
    if options.get("device") is None:
        options["device"] = input.device
    return {**options, "dtype": input.dtype if dtype is None else as_dtype(dtype)}


@public()
def rand_like(input: Tensor, **options: Any) -> Tensor:
    """`rand` in the shape and dtype of `input`; it takes `rand`'s options."""
    return rand(input.shape, **_options(input, options))


@public()
def randn_like(input: Tensor, **options: Any) -> Tensor:
    """`randn` in the shape and dtype of `input`; it takes `randn`'s options."""
    return randn(input.shape, **_options(input, options))


@public()
def randint_like(input: Tensor, low: Any = 0, high: Any = None, **options: Any) -> Tensor:
    """`randint` in the shape and dtype of `input`; it takes `randint`'s options."""
    first, last = (0, low) if high is None else (low, high)
    return randint(first, last, input.shape, **_options(input, options))

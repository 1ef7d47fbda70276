"""Random numbers, those of PyTorch for the same seed: the same bits where integers and scaling
decide, else within 4 units in the last place.

A generator's state is in tensors that each draw changes in place, so a trace turns them into inputs
with aliased outputs: the same stream eager and compiled. Samples of other distributions than the
uniform, the normal and whole numbers stand in `sampling`, what is drawn inside networks in
`network_draws`.
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from frontend.engine.eager.promotion import casted
from frontend.engine.eager.uncompiled import joined
from frontend.engine.tensors.dtypes import SCALAR_NAMES, as_dtype
from frontend.engine.tensors.generator import Generator, default_generator, drawn_on
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.symbolic_numbers import outermost_first
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import drawn_words as words
from frontend.functions import pointwise as f
from frontend.functions.arguments import not_implemented, stored
from frontend.functions.creation_options import check_options, finished, kind_of, shape_of
from frontend.functions.declarations import public
from frontend.functions.random_fills import ROW, in_blocks, in_pairs
from graphc.ir.types import DType

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
    """The state of the default generator, uint8[5056]."""
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


def _checked(generator: Generator | None) -> Generator | None:
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(f"generator must be a torch.Generator, not {type(generator).__name__}")
    return generator


def uniform(
    shape: tuple[int, ...], dtype: DType | None = None, generator: Generator | None = None,
    low: float = 0.0, high: float = 1.0,
) -> Tensor:  # fmt: skip
    """Numbers in [low, high) of `shape`: of 24 binary digits, in f64 of 53. The half types round
    those of f32, and what would be rounded to `high` is `low`."""
    if generator is not None:
        _checked(generator)
    kind = dtype or STATE.default_dtype
    if kind.is_complex:
        pairs = uniform((*shape, 2), kind.computes_as, generator)
        return joined(pairs[..., 0], pairs[..., 1])
    wide = kind.computes_as
    if (low, high) == (0, 1):
        numbers = words.fractions(shape, wide, generator)
    else:  # in a row: NumPy's arithmetic on arrays without dimensions gives no arrays
        numbers = words.between(words.fractions(math.prod(shape), wide, generator), low, high)
    drawn = words.as_tensor(numbers, shape, wide)
    if wide is kind:
        return drawn
    rounded = casted(casted(drawn, kind), wide)
    least, greatest = (float(np.asarray(end, kind.numpy)) for end in (low, high))
    return casted(f.where(rounded == greatest, least, rounded), kind)


def normal_numbers(
    shape: tuple[int, ...], dtype: DType | None = None, generator: Generator | None = None,
    mean: float = 0.0, deviation: float = 1.0, *, in_a_row: bool = True,
) -> Tensor:  # fmt: skip
    """Normal numbers of `shape`; complex ones have half of the variance in each part. `in_a_row`:
    they fill memory whose elements follow each other."""
    if generator is not None:
        _checked(generator)
    kind = dtype or STATE.default_dtype
    if kind.is_complex:
        part = (mean, deviation * math.sqrt(0.5))
        pairs = normal_numbers((*shape, 2), kind.computes_as, generator, *part)
        return joined(pairs[..., 0], pairs[..., 1])
    count = math.prod(shape)
    if count == 0:
        return words.as_tensor(np.empty(0, kind.numpy), shape, kind)
    if in_a_row and count >= ROW:
        numbers = in_blocks(count, kind, generator)
    else:
        numbers = in_pairs(count, generator)
    if (deviation, mean) != (1, 0):
        numbers = words.scaled(numbers, deviation, mean)
    return words.as_tensor(words.in_dtype(numbers, kind), shape, kind)


LONG_RANGE = 2**28
"""Whole numbers from a range of so many, or more, take 64 random bits each."""


def whole_numbers(
    low: int, high: int, shape: tuple[int, ...], generator: Generator | None = None,
    wide: bool | None = None,
) -> Tensor:  # fmt: skip
    """int64 in [low, high), of any range that int64 has: a random word modulo the range. `wide`:
    whether words have 64 bits."""
    if generator is not None:
        _checked(generator)
    span = high - low
    long = span >= LONG_RANGE if wide is None else wide
    return words.as_tensor(words.whole(shape, low, span, long, generator), shape, DType.i64)


def in_memory_order(like: Tensor, draw: Callable[[tuple[int, ...], bool], Tensor]) -> Tensor:
    """`draw(shape, whether elements of this shape follow each other in memory)` for the elements of
    a tensor in the order in which they lie in memory, in its shape."""
    if like.is_contiguous():
        return draw(like._sizes, True)
    return _permuted(like, memory_order(like), lambda shape: draw(shape, False))


def memory_order(tensor: Tensor) -> list[int]:
    """The axes of a tensor from the outermost in memory."""
    order = (
        outermost_first(tensor.stride()) if STATE.mode is None else STATE.mode.memory_order(tensor)
    )
    return [*range(tensor.dim())] if order is None else order


def _permuted(like: Tensor, order: list[int], draw: Callable[[Any], Tensor]) -> Tensor:
    drawn = draw(tuple([like._sizes[axis] for axis in order]))
    return drawn.permute([order.index(axis) for axis in range(len(order))])


def _need_float(kind: DType, kernel: str) -> None:
    if not kind.is_float or not (kind.is_compiled or kind.is_complex):
        raise not_implemented(kernel, kind)


def _of(sizes: tuple[Any, ...], size: Any, name: str) -> tuple[int, ...]:
    """A shape given as numbers, as one sequence, or by name. Raises TypeError for none."""
    if size is None and sizes:
        return shape_of(sizes, name)
    if size is None:
        raise TypeError(f"{name} received an invalid combination of arguments: it takes a size")
    return shape_of((*sizes, size), name)


# -- creating tensors ----------------------------------------------------------------------------


@public()
def rand(
    *sizes: Any, size: Any = None, generator: Generator | None = None, out: Any = None,
    dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform in [0, 1)."""
    place = check_options(device, layout, pin_memory)
    shape, kind = _of(sizes, size, "rand()"), kind_of(dtype, out, STATE.default_dtype)
    _need_float(kind, "check_uniform_bounds")
    drawn = uniform(shape, kind, drawn_on(place, generator))
    return (
        drawn if out is None and not requires_grad else finished(stored(drawn, out), requires_grad)
    )


@public()
def randn(
    *sizes: Any, size: Any = None, generator: Generator | None = None, out: Any = None,
    dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Normal with mean 0 and variance 1."""
    return _standard_normal(
        _of(sizes, size, "randn()"), True, generator, out, dtype, layout, device, requires_grad,
        pin_memory,
    )  # fmt: skip


def _standard_normal(
    shape: tuple[int, ...], in_a_row: bool, generator: Generator | None = None, out: Any = None,
    dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    place = check_options(device, layout, pin_memory)
    kind = kind_of(dtype, out, STATE.default_dtype)
    _need_float(kind, "normal_kernel_cpu")
    drawn = normal_numbers(shape, kind, drawn_on(place, generator), in_a_row=in_a_row)
    return (
        drawn if out is None and not requires_grad else finished(stored(drawn, out), requires_grad)
    )


@public()
def randint(
    low: Any = 0, high: Any = None, size: Any = None, *, generator: Generator | None = None,
    out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Whole numbers in [low, high), int64 unless `dtype` says otherwise; `randint(high, size)`
    starts at 0. Raises RuntimeError for an empty range and for one that the dtype does not hold."""
    place = check_options(device, layout, pin_memory)
    if size is None and high is not None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if size is None:
        raise TypeError("randint() received an invalid combination of arguments: it takes a size")
    first = low if low.__class__ is int else _whole("randint()", "low", low)
    last = high if high.__class__ is int else _whole("randint()", "high", high)
    kind = kind_of(dtype, out, DType.i64)
    if kind is not DType.i64 or not -(2**63) <= first < last <= 2**63:
        check_range(first, last, kind)
    source = drawn_on(place, generator)
    numbers = whole_numbers(first, last, shape_of((size,), "randint()"), source)
    if kind is DType.i64 and out is None and not requires_grad:
        return numbers
    return finished(stored(casted(numbers, kind), out), requires_grad)


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


@functools.cache
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
    place = check_options(device, layout, pin_memory)
    (size,) = shape_of((_whole("randperm()", "n", n),), "randperm()")
    kind = kind_of(dtype, out, DType.i64)
    greatest = 2 ** DIGITS[kind] if kind.is_float else bounds(kind)[1]
    if size - 1 > greatest:
        raise RuntimeError(
            f"n is too large for the result tensor type: {SCALAR_NAMES[kind]} does not hold "
            f"{size - 1}"
        )
    order = words.order(size, _checked(drawn_on(place, generator)))
    if kind is DType.i64 and out is None and not requires_grad:
        return order
    return finished(stored(casted(order, kind), out), requires_grad)


# -- like another tensor -------------------------------------------------------------------------


def _options(input: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a function that makes one like `input`."""
    dtype = options.pop("dtype", None)
    options.pop("memory_format", None)
    if options.get("device") is None:
        options["device"] = input.device
    return {**options, "dtype": input.dtype if dtype is None else as_dtype(dtype)}


def _like(function: Callable[..., Tensor], input: Tensor, options: dict[str, Any]) -> Tensor:
    """What a function draws in the shape of a tensor, in the order of its memory."""
    options = _options(input, options)
    order = memory_order(input)
    if order == sorted(order):
        return function(input._sizes, True, **options)
    return _permuted(input, order, lambda shape: function(shape, False, **options)).contiguous()


@public()
def rand_like(input: Tensor, **options: Any) -> Tensor:
    """`rand` in the shape and dtype of `input`; it takes `rand`'s options."""
    return _like(lambda shape, _, **o: rand(shape, **o), input, options)


@public()
def randn_like(input: Tensor, **options: Any) -> Tensor:
    """`randn` in the shape and dtype of `input`; it takes `randn`'s options."""
    return _like(_standard_normal, input, options)


@public()
def randint_like(input: Tensor, low: Any = 0, high: Any = None, **options: Any) -> Tensor:
    """`randint` in the shape and dtype of `input`; it takes `randint`'s options."""
    first, last = (0, low) if high is None else (low, high)
    return _like(lambda shape, _, **o: randint(first, last, shape, **o), input, options)

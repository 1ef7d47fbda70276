"""Random numbers from a counter: element i of a draw depends on (seed, counter + i) alone.

A generator's state is a tensor i64[2] (seed, counter) that each draw advances in place, so a trace
turns it into an input with an aliased output: the same stream eager and compiled.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from frontend.creation import shape_of
from frontend.dispatch import CONTEXT
from frontend.dtypes import as_dtype
from frontend.functions import pointwise as f
from frontend.promotion import casted
from frontend.state import STATE, no_grad
from frontend.tensor import Tensor, from_data
from graphc.errors import TraceError
from graphc.ir.types import DType
from graphc.ops.generate import random_uniform

__all__ = [
    "Generator", "bernoulli", "default_generator", "fork_rng", "get_rng_state", "initial_seed",
    "manual_seed", "multinomial", "normal", "rand", "rand_like", "randint", "randint_like", "randn",
    "randn_like", "randperm", "seed", "set_rng_state",
]  # fmt: skip
METHODS = (
    "bernoulli multinomial uniform_ normal_ bernoulli_ random_ exponential_ log_normal_"
)


class Generator:
    """A stream of random numbers."""

    def __init__(self, device: Any = "cpu"):
        self.state = from_data([0, 0], DType.i64)
        self.manual_seed(67280421310721)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of `seed` from its beginning."""
        _outside_trace("manual_seed()")
        # Seeds are 64-bit words; -1 and 2**64 - 1 are the same one.
        word = int(seed) % 2**64
        signed = word - 2**64 if word >= 2**63 else word
        self.state._assign(from_data([signed, 0], DType.i64))
        return self

    def seed(self) -> int:
        """Seed from the operating system; the seed."""
        seed = int.from_bytes(os.urandom(7), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        return int(self.state._array("initial_seed()")[0])

    def get_state(self) -> Tensor:
        """A copy of the state, i64[2]."""
        return from_data(self.state)

    def set_state(self, new_state: Tensor) -> Generator:
        self.state._assign(new_state)
        return self


def _outside_trace(what: str) -> None:
    if STATE.session is not None:
        raise TraceError(
            f"{what} inside a trace would be frozen into the graph", hint="call it outside"
        )


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Start the default generator's stream of `seed`."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    return default_generator.seed()


def initial_seed() -> int:
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(*_: Any, **__: Any) -> Iterator[None]:
    """Put the default generator's state back on leaving."""
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


def uniform(
    shape: tuple[int, ...], dtype: DType | None = None, generator: Generator | None = None
) -> Tensor:
    """Numbers in [0, 1), multiples of 2**-24, of `shape`."""
    source = generator or default_generator
    kind = dtype or STATE.default_dtype
    with no_grad():
        numbers, state = CONTEXT.apply(
            random_uniform, (source.state,), {"shape": shape, "dtype": kind}
        )
        source.state._assign(state)
    return numbers


def normal_numbers(
    shape: tuple[int, ...], dtype: DType | None = None, generator: Generator | None = None
) -> Tensor:
    """Standard normal numbers, by Box and Muller's transform ("A note on the generation of random
    normal deviates", 1958) of two uniform draws."""
    radius = f.sqrt(f.log(1 - uniform(shape, dtype, generator)) * -2)
    return radius * f.cos(uniform(shape, dtype, generator) * (2 * math.pi))


def _finish(result: Tensor, requires_grad: bool) -> Tensor:
    return result.requires_grad_() if requires_grad else result


def rand(
    *size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform in [0, 1)."""
    kind = None if dtype is None else as_dtype(dtype)
    return _finish(uniform(shape_of(size), kind, generator), requires_grad)


def randn(
    *size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Normal with mean 0 and variance 1."""
    kind = None if dtype is None else as_dtype(dtype)
    with no_grad():
        result = normal_numbers(shape_of(size), kind, generator)
    return _finish(result, requires_grad)


def randint(
    low: int, high: Any = None, size: Any = None, *, generator: Generator | None = None,
    dtype: Any = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Whole numbers in [low, high); `randint(high, size)` starts at 0. Ranges up to 2**24 are
    uniform. Raises RuntimeError for an empty range."""
    if size is None:
        low, high, size = 0, low, high
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= "
                           f"to={high}")  # fmt: skip
    kind = DType.i64 if dtype is None else as_dtype(dtype)
    with no_grad():
        numbers = uniform(shape_of((size,)), DType.f64, generator)
        return casted(f.floor(numbers * (high - low)), DType.i64).add(low).to(kind)


def randperm(
    n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None
) -> Tensor:
    """0 … n-1 in random order. Not inside a trace."""
    _outside_trace("randperm()")
    numbers = uniform((n,), DType.f64, generator)._array("randperm()")
    order = np.argsort(numbers, kind="stable")
    return from_data(order, DType.i64 if dtype is None else dtype)


def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Any:
    """1 with the probability each element of `input` gives (or with `p`), else 0."""
    with no_grad():
        drawn = uniform(input.tensor_type.shape, None, generator)
        return casted(drawn < (input if p is None else p), input.dtype)


def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None,
    dtype: Any = None,
) -> Tensor:  # fmt: skip
    """Normal numbers of a mean and a standard deviation (numbers or tensors)."""
    if size is None:
        size = (mean + std * 0 if isinstance(mean, Tensor) else std).shape
    kind = None if dtype is None else as_dtype(dtype)
    with no_grad():
        return normal_numbers(shape_of((size,)), kind, generator) * std + mean


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Positions (int64) drawn by the weights `input` [n] or [rows, n]: [num_samples] or
    [rows, num_samples]. Without replacement each position is drawn at most once. Raises
    RuntimeError for negative or infinite weights, or too few that are not 0; in a trace weights are
    not known and not checked."""
    if input.dim() not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if not input.dtype.is_float:
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, got: " + str(input.dtype)
        )
    count = input.shape[-1]
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > count:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    if STATE.session is None:
        _check_weights(input, num_samples, replacement)
    from frontend.functions.order import cumsum, topk

    with no_grad():
        weights = casted(input, DType.f64)
        if not replacement:
            # A race of exponential clocks: the order of arrival is the order of drawing.
            arrival = -f.log(1 - uniform(tuple(input.shape), DType.f64, generator)) / weights
            return topk(arrival, num_samples, -1, largest=False)[1]
        upper = cumsum(weights, -1)
        drawn = uniform((*input.shape[:-1], num_samples), DType.f64, generator) * upper[..., -1:]
        passed = upper.unsqueeze(-2) <= drawn.unsqueeze(-1)
        return passed.sum(-1)


def _check_weights(input: Tensor, num_samples: int, replacement: bool) -> None:
    weights = input._array("multinomial()")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if (weights.sum(-1) <= 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement and ((weights > 0).sum(-1) < num_samples).any():
        raise RuntimeError(
            "invalid multinomial distribution (with replacement=False, not enough non-negative "
            "category to sample)"
        )


def rand_like(input: Tensor, *, dtype: Any = None, **options: Any) -> Tensor:
    return rand(input.shape, dtype=dtype or input.dtype, **options)


def randn_like(input: Tensor, *, dtype: Any = None, **options: Any) -> Tensor:
    return randn(input.shape, dtype=dtype or input.dtype, **options)


def randint_like(
    input: Tensor, low: int, high: int | None = None, *, dtype: Any = None, **options: Any
) -> Tensor:
    first, last = (0, low) if high is None else (low, high)
    return randint(first, last, input.shape, dtype=dtype or input.dtype, **options)


# -- in place ------------------------------------------------------------------------------------


def uniform_(
    self: Tensor, a: float = 0, b: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Filled with uniform numbers in [a, b)."""
    numbers = uniform(self.tensor_type.shape, self.dtype, generator)
    return self._assign(numbers * (b - a) + a)


def normal_(
    self: Tensor, mean: float = 0, std: float = 1, *, generator: Generator | None = None
) -> Tensor:
    """Filled with normal numbers."""
    with no_grad():
        numbers = normal_numbers(self.tensor_type.shape, self.dtype, generator) * std + mean
    return self._assign(numbers)


def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Filled with 1 with probability p, else 0."""
    drawn = uniform(self.tensor_type.shape, None, generator)
    return self._assign(casted(drawn < p, self.dtype))


def exponential_(self: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Filled with exponential numbers of the rate `lambd`."""
    with no_grad():
        drawn = uniform(self.tensor_type.shape, self.dtype, generator)
        return self._assign(-f.log(1 - drawn) / lambd)


def log_normal_(
    self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None
) -> Tensor:
    """Filled with exp of normal numbers of this mean and standard deviation."""
    with no_grad():
        numbers = normal_numbers(self.tensor_type.shape, self.dtype, generator) * std + mean
        return self._assign(f.exp(numbers))


def random_(
    self: Tensor, low: int = 0, high: int | None = None, *, generator: Generator | None = None
) -> Tensor:
    """Filled with whole numbers in [low, high); one number is `high`."""
    first, last = (0, low or 2**24) if high is None else (low, high)
    return self._assign(
        randint(first, last, self.tensor_type.shape, generator=generator, dtype=self.dtype)
    )

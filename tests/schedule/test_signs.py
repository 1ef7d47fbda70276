"""What is known of a value's sign, and that exponentials keep their bits where it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.elementwise.recipe import lower_nest
from graphc.codegen.llvm import jit
from graphc.codegen.target import Target
from graphc.ir.handle import broadcast_to
from graphc.ops import elementwise as e
from graphc.ops.movement import reshape, transpose
from graphc.ops.reduce import max as greatest
from graphc.ops.reduce import min as least
from graphc.schedule.value_ranges import is_nonpositive


def below(x: Any, axes: tuple[int, ...], shape: tuple[int, ...], bound: Any = greatest) -> Any:
    """x less its maximum (or another `bound`) over the axes, which have size 1 in `shape`."""
    return x - broadcast_to(reshape(bound(x, axes=axes), shape=shape), (6, 6))


KNOWN: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: below(x, (1,), (6, 1)),
    "columns": lambda x: below(x, (0,), (1, 6)),
    "all": lambda x: below(x, (0, 1), (1, 1)),
    "minus abs": lambda x: -e.abs(x),
}
UNKNOWN: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "minimum": lambda x: below(x, (1,), (6, 1), least),
    "of columns": lambda x: below(x, (1,), (1, 6)),
    "of another": lambda x: x - broadcast_to(reshape(greatest(x * x, axes=(1,)), shape=(6, 1)),
                                             (6, 6)),
    "turned": lambda x: transpose(x, permutation=(1, 0))
    - broadcast_to(reshape(greatest(x, axes=(1,)), shape=(6, 1)), (6, 6)),
    "the other way": lambda x: -below(x, (1,), (6, 1)),
}  # fmt: skip


def body_of(function: Callable[[Any], Any]) -> graphc.Graph:
    g = graphc.GraphBuilder("body")
    return g.finish(function(g.input("x", "f32[6,6]")))


@pytest.mark.parametrize("name", KNOWN)
def test_known_to_be_at_most_zero(name: str) -> None:
    body = body_of(KNOWN[name])
    assert is_nonpositive(body, body.outputs[0])


@pytest.mark.parametrize("name", UNKNOWN)
def test_not_known(name: str) -> None:
    body = body_of(UNKNOWN[name])
    assert not is_nonpositive(body, body.outputs[0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", KNOWN)
def test_the_exponential_has_the_same_bits(name: str, native_target: Target) -> None:
    """Of values down to where it vanishes, and with infinities and NaN among them."""
    x = np.random.default_rng(0).normal(0, 40, 36).astype(np.float32)
    x[[7, 20, 33]] = np.inf, -np.inf, np.nan
    actual = np.empty_like(x)
    body = body_of(lambda v: e.exp(KNOWN[name](v)))

    def call(body: graphc.Graph, *buffers: np.ndarray) -> None:
        jit.call_kernel(lower_nest("kernel", body, native_target), buffers, target=native_target)

    call(body, x, actual)
    inner, want = np.empty_like(x), np.empty_like(x)
    call(body_of(KNOWN[name]), x, inner)
    call(body_of(e.exp), inner, want)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(want))
    held = ~np.isnan(want)
    np.testing.assert_array_equal(actual[held].view(np.int32), want[held].view(np.int32))

"""What is known of integers: checks that cannot fail are not made, all others are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.ops import elementwise as e
from graphc.ops import indexing, movement, order, reduce
from graphc.ops.generate import iota_like
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import Check


def checks(make: Callable[..., Any], *types: str) -> int:
    g = graphc.GraphBuilder("ranges")
    inputs = [g.input(f"x{i}", type) for i, type in enumerate(types)]
    _, plan = plan_graph(g.finish(make(*inputs)))
    return sum(isinstance(step, Check) for step in plan.steps)


def full(number: int, like: Any) -> Any:
    constant = like.context.constant(np.asarray(number, like.dtype.numpy))
    return movement.broadcast(constant, shape=like.shape)


KNOWN: dict[str, Callable[[Any, Any], Any]] = {
    "argsort": lambda x, i: order.argsort(x, axis=0),
    "argmax": lambda x, i: reduce.argmax(x, axes=(0,)),
    "argcummax": lambda x, i: order.argcummax(x, axis=0),
    "iota": lambda x, i: iota_like(x, (20,), 0),
    "clamp": lambda x, i: e.clamp(i, full(0, i), full(19, i)),
    "minimum and maximum": lambda x, i: e.maximum(e.minimum(i, full(19, i)), full(0, i)),
    "mod": lambda x, i: e.mod(i, full(20, i)),
    "where": lambda x, i: e.where(e.gt(x, x), full(3, i), iota_like(x, (20,), 0)),
    "sum": lambda x, i: iota_like(x, (20,), 0) - full(19, i) + full(19, i),
    "product": lambda x, i: e.mod(i, full(3, i)) * full(4, i),
    "cast": lambda x, i: e.cast(e.cast(order.argsort(x, axis=0), dtype=graphc.DType.i32),
                                dtype=graphc.DType.i64),
    "bools": lambda x, i: e.cast(e.gt(x, x), dtype=graphc.DType.i64),
    "moved": lambda x, i: movement.concat(order.argsort(x, axis=0), full(0, i), axis=0),
    "gathered": lambda x, i: indexing.take(order.argsort(x, axis=0), full(2, i), axis=0),
    "greatest": lambda x, i: reduce.max(iota_like(x, (20,), 0), axes=(0,)),
}  # fmt: skip

UNKNOWN: dict[str, Callable[[Any, Any], Any]] = {
    "input": lambda x, i: i,
    "one too many": lambda x, i: e.clamp(i, full(0, i), full(20, i)),
    "negative": lambda x, i: iota_like(x, (20,), 0) - full(1, i),
    "too far": lambda x, i: iota_like(x, (20,), 0) + full(1, i),
    "one side": lambda x, i: e.minimum(i, full(19, i)),
    "wrapped": lambda x, i: (iota_like(x, (20,), 0) + full(2**62, i)) * full(4, i),
    "of a float": lambda x, i: e.cast(x, dtype=graphc.DType.i64),
    "one arm": lambda x, i: e.where(e.gt(x, x), full(3, i), i),
    "one part": lambda x, i: movement.concat(order.argsort(x, axis=0), i, axis=0),
    "a sum": lambda x, i: order.cumsum(iota_like(x, (20,), 0), axis=0),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_certain_is_not_checked(name: str) -> None:
    def make(x: Any, i: Any) -> Any:
        return indexing.take(x, KNOWN[name](x, i), axis=0)

    assert checks(make, "f32[20]", "i64[20]") == 0


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_certain_is_checked(name: str) -> None:
    def make(x: Any, i: Any) -> Any:
        return indexing.take(x, UNKNOWN[name](x, i), axis=0)

    assert checks(make, "f32[20]", "i64[20]") == 1


def test_an_index_that_was_checked_is_not_checked_again() -> None:
    def make(x: Any, i: Any) -> Any:
        checked = indexing.check_index(i, bound=20, message="index {} of 20")
        return indexing.take(x, movement.reshape(checked, shape=(4, 5)), axis=0)

    assert checks(make, "f32[20]", "i64[20]") == 1

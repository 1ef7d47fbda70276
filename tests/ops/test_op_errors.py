"""Operands and attributes that do not fit: the message names op, shapes, dtypes and the line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.errors import AttributeValueError
from graphc.ops import composite, contract, generate, indexing, movement, reduce, strided
from graphc.ops import elementwise as e
from graphc.ops.nn import losses, normalization, pooling

flat = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}

CASES: list[tuple[str, Callable[..., Any], list[str], type[Exception], list[str]]] = [
    ("broadcast", lambda x, y: x + y, ["f32[2,3]", "f32[4]"], graphc.ShapeError,
     ["add", "f32[2,3]", "f32[4]", "do not broadcast"]),
    ("strict", e.add, ["f32[2,3]", "f32[3]"], graphc.ShapeError, ["add", "f32[2,3]", "f32[3]"]),
    ("mixed", e.mul, ["f32[3]", "f64[3]"], graphc.DTypeError, ["mul", "f32[3]", "f64[3]"]),
    ("mixed operators", lambda x, y: x * y, ["f32[3]", "i64[3]"], graphc.DTypeError,
     ["mul", "f32[3]", "i64[3]"]),
    ("bool arithmetic", e.add, ["bool[3]", "bool[3]"], graphc.DTypeError, ["add", "bool[3]"]),
    ("int exp", e.exp, ["i32[3]"], graphc.DTypeError, ["exp", "i32[3]", "f32, f64"]),
    ("predicate", e.where, ["f32[3]", "f32[3]", "f32[3]"], graphc.DTypeError,
     ["where", "f32[3]", "bool"]),
    ("matmul", lambda x, y: x @ y, ["f32[2,3]", "f32[4,5]"], graphc.ShapeError,
     ["matmul", "f32[2,3]", "f32[4,5]", "second-last"]),
    ("matmul rank", lambda x, y: x @ y, ["f32[2,3]", "f32[3]"], graphc.ShapeError,
     ["matmul", "f32[2,3]", "f32[3]"]),
    ("matmul dtypes", lambda x, y: x @ y, ["f32[2,3]", "f64[3,2]"], graphc.DTypeError,
     ["matmul", "f32[2,3]", "f64[3,2]"]),
    ("matmul bool", lambda x, y: x @ y, ["bool[2,3]", "bool[3,2]"], graphc.DTypeError,
     ["matmul", "bool[2,3]"]),
    ("conv channels", lambda x, w: contract.conv(x, w, groups=1, **flat),
     ["f32[1,3,5,5]", "f32[2,4,3,3]"], graphc.ShapeError, ["[1, 3, 5, 5]", "expected 4", "got 3"]),
    ("conv window", lambda x, w: contract.conv(x, w, groups=1, **flat),
     ["f32[1,3,2,2]", "f32[2,3,3,3]"], graphc.GraphError, ["2", "3"]),
    ("axis", lambda x: reduce.sum(x, axes=(2,)), ["f32[3,4]"], graphc.ShapeError,
     ["sum", "[2]", "f32[3,4]"]),
    ("repeated axis", lambda x: reduce.sum(x, axes=(0, -2)), ["f32[3,4]"],
     graphc.ShapeError, ["sum", "[0, -2]", "each once"]),
    ("max of nothing", lambda x: reduce.max(x, axes=(0,)), ["f32[0,3]"], graphc.GraphError,
     ["max", "f32[0,3]"]),
    ("argmax of bool", lambda x: reduce.argmax(x, axes=(0,)), ["bool[3]"], graphc.DTypeError,
     ["argmax", "bool[3]"]),
    ("reshape", lambda x: movement.reshape(x, shape=(4, 2)), ["f32[3,3]"], graphc.ShapeError,
     ["reshape", "f32[3,3]", "[4, 2]"]),
    ("transpose", lambda x: movement.transpose(x, permutation=(0, 0)), ["f32[3,3]"],
     graphc.ShapeError, ["transpose", "f32[3,3]", "[0, 0]"]),
    ("diagonal", lambda x: strided.diagonal(x, offset=0, axis1=0, axis2=0.7), ["f32[3,3]"],
     AttributeValueError, ["diagonal", "axis2", "0.7"]),
    ("slice", lambda x: movement.slice_(x, start=(2,), size=(3,), step=(1,)), ["f32[4]"],
     graphc.ShapeError, ["slice", "f32[4]", "start 2"]),
    ("concat", lambda x, y: movement.concat(x, y, axis=0), ["f32[2,3]", "f32[2,4]"],
     graphc.ShapeError, ["concat", "f32[2,3]", "f32[2,4]"]),
    ("concat dtypes", lambda x, y: movement.concat(x, y, axis=0), ["f32[2]", "i32[2]"],
     graphc.DTypeError, ["concat", "f32[2]", "i32[2]"]),
    ("gather index", lambda x, i: indexing.gather(x, i, axis=0), ["f32[3]", "f32[2]"],
     graphc.DTypeError, ["gather", "f32[2]"]),
    ("gather shape", lambda x, i: indexing.gather(x, i, axis=0), ["f32[3,2]", "i64[2,3]"],
     graphc.ShapeError, ["gather", "f32[3,2]", "i64[2,3]"]),
    ("index_add", lambda x, i, d: indexing.index_add(x, i, d, axis=0),
     ["f32[3,2]", "i64[4]", "f32[4,3]"], graphc.ShapeError, ["index_add", "f32[4,3]", "[4, 2]"]),
    ("softmax", lambda x: composite.softmax(x, axis=1), ["i64[3,4]"], graphc.DTypeError,
     ["softmax", "i64[3,4]"]),
    ("softmax axis", lambda x: composite.softmax(x, axis=2), ["f32[3,4]"], graphc.ShapeError,
     ["softmax", "axis 2", "f32[3,4]"]),
    ("cross_entropy", losses.cross_entropy, ["f32[3,4]", "i64[4]"], graphc.ShapeError,
     ["cross_entropy", "f32[3,4]", "i64[4]"]),
    ("cross_entropy target", losses.cross_entropy, ["f32[3,4]", "f32[3]"], graphc.DTypeError,
     ["cross_entropy", "f32[3]"]),
    ("layer_norm", normalization.layer_norm, ["f32[3,4]", "f32[3]", "f32[3]"], graphc.ShapeError,
     ["layer_norm", "f32[3,4]", "f32[3]"]),
    ("gelu", lambda x: composite.gelu(x, approximate="fast"), ["f32[3]"], ValueError,
     ["gelu", "'fast'"]),
    ("pool", lambda x: pooling.max_pool(x, kernel=(2,), stride=(1,), padding=(2,),
                                          dilation=(1,)), ["f32[1,5]"], ValueError,
     ["at most half"]),
    ("random state", lambda s: generate.random_uniform(s, shape=(3,)), ["i32[2]"],
     graphc.DTypeError, ["random_uniform", "i64[2]", "i32[2]"]),
    ("unknown attribute", lambda x: reduce.sum(x, axis=0), ["f32[3]"], AttributeValueError,
     ["sum", "'axis'", "axes"]),
    ("missing attribute", lambda x: reduce.sum(x), ["f32[3]"], AttributeValueError,
     ["sum", "'axes'"]),
    ("NaN attribute", lambda x, w, b: normalization.layer_norm(x, w, b, eps=float("nan")),
     ["f32[3]"] * 3, AttributeValueError, ["layer_norm", "eps", "NaN"]),
    ("too few operands", e.add, ["f32[3]"], graphc.GraphError, ["add", "2 operands", "1"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "types", "error", "parts"),
    [case[1:] for case in CASES], ids=[case[0] for case in CASES],
)  # fmt: skip
def test_operands_that_do_not_fit(
    function: Callable[..., Any], types: list[str], error: type[Exception], parts: list[str]
) -> None:
    g = graphc.GraphBuilder("wrong")
    inputs = [g.input(f"x{i}", type) for i, type in enumerate(types)]
    with pytest.raises(error) as caught:
        function(*inputs)
    assert isinstance(caught.value, graphc.GraphError)
    for part in parts:
        assert part in str(caught.value)


def test_errors_name_the_users_line() -> None:
    g = graphc.GraphBuilder("wrong")
    x, y = g.input("x", "f32[2,3]"), g.input("y", "f32[4,5]")
    frame = inspect.currentframe()
    assert frame is not None
    with pytest.raises(graphc.ShapeError) as caught:
        line = frame.f_lineno + 1
        _ = x @ y
    assert f"test_op_errors.py:{line} in test_errors_name_the_users_line" in str(caught.value)
    with pytest.raises(graphc.GraphError) as caught:
        line = frame.f_lineno + 1
        _ = x + y
    assert f"test_op_errors.py:{line}" in str(caught.value)


def test_a_graph_value_has_no_truth_value() -> None:
    g = graphc.GraphBuilder("truth")
    x = g.input("x", "f32[]")
    with pytest.raises(graphc.TraceError, match=r"no truth value(.|\n)*where"):
        if x > 0:
            pass


def test_values_of_another_graph_are_refused() -> None:
    g, other = graphc.GraphBuilder("g"), graphc.GraphBuilder("other")
    x, y = g.input("x", "f32[3]"), other.input("y", "f32[3]")
    with pytest.raises(graphc.TraceError, match=r"add got .* no value of graph 'g'"):
        _ = x + y


def test_indices_are_checked_by_the_reference() -> None:
    g = graphc.GraphBuilder("checked")
    x, i = g.input("x", "f32[3,2]"), g.input("i", "i64[2]")
    graph = g.finish(indexing.take(x, i, axis=0))
    for bad in (3, -1):
        with pytest.raises(graphc.IndexRangeError, match=rf"take: index {bad} is out of bounds"):
            graphc.run(graph, np.zeros((3, 2), np.float32), np.array([0, bad]))


def test_unknown_ops_suggest_near_names() -> None:
    with pytest.raises(AttributeError, match=r"unknown op 'sotfmax'(.|\n)*softmax"):
        _ = graphc.ops.sotfmax

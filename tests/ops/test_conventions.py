"""What the ops do where there is a choice: gradients at kinks and ties (PyTorch's), NaN, rounding
of halves, empty reductions, and the errors for operands that do not fit."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import DType, DTypeError, GraphBuilder, GraphError, IndexRangeError, ShapeError, ops
from graphc.errors import AttributeValueError
from graphc.ir.registry import lookup
from graphc.ir.types import TensorType


def build(name: str, *arrays: Any, **attributes: Any) -> tuple[graphc.Graph, list[np.ndarray]]:
    arguments = [np.asarray(array) for array in arrays]
    g = GraphBuilder(name)
    inputs = [g.input(f"x{i}", TensorType.of(array)) for i, array in enumerate(arguments)]
    return g.finish(*g.apply(lookup(name), tuple(inputs), attributes)), arguments


def value(name: str, *arrays: Any, **attributes: Any) -> np.ndarray:
    """Reference and native, which must agree."""
    graph, inputs = build(name, *arrays, **attributes)
    (expected,) = graphc.run(graph, *inputs)
    (native,) = graphc.compile(graph)(*inputs)
    np.testing.assert_array_equal(native, expected)
    return expected


def gradients(name: str, *arrays: Any, **attributes: Any) -> list[list[float]]:
    """Of the sum of the result, by the reference and natively."""
    graph, inputs = build(name, *arrays, **attributes)
    joint = graphc.joint(graph)
    (output,) = graph.output_types
    if len(joint.inputs) > len(graph.inputs):
        inputs.append(np.ones(output.shape, output.dtype.numpy))
    expected = graphc.run(joint, *inputs)[1:]
    for native, reference in zip(graphc.compile(joint)(*inputs)[1:], expected, strict=True):
        np.testing.assert_array_equal(native, reference)
    return [gradient.tolist() for gradient in expected]


# -- kinks and ties -------------------------------------------------------------------------------


def test_relu_has_gradient_0_at_0() -> None:
    assert gradients("relu", [-1.0, -0.0, 0.0, 2.0]) == [[0, 0, 0, 1]]


def test_abs_has_gradient_0_at_0() -> None:
    assert gradients("abs", [-3.0, -0.0, 0.0, 2.0]) == [[-1, 0, 0, 1]]


@pytest.mark.parametrize("name", ["sign", "floor", "ceil", "round"])
def test_steps_have_gradient_0(name: str) -> None:
    assert gradients(name, [-1.5, 0.0, 1.0, 2.5]) == [[0, 0, 0, 0]]


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_equal_operands_share_the_gradient(name: str) -> None:
    first, second = gradients(name, [1.0, 2.0, 0.0], [1.0, 5.0, -0.0])
    assert first[0] == second[0] == 0.5
    assert first[2] == second[2] == 0.5
    assert (first[1], second[1]) == ((1, 0) if name == "minimum" else (0, 1))


@pytest.mark.parametrize("name", ["min", "max"])
def test_equal_extrema_share_the_gradient_evenly(name: str) -> None:
    (result,) = gradients(name, [[1.0, 1.0, 1.0, 1.0], [2.0, 1.0, 2.0, 1.0]], axes=(1,))
    assert result[0] == [0.25] * 4
    assert result[1] == ([0, 0.5, 0, 0.5] if name == "min" else [0.5, 0, 0.5, 0])


def test_clamp_passes_the_gradient_on_its_boundaries() -> None:
    low, high = [-1.0] * 5, [1.0] * 5
    by_x, by_low, by_high = gradients("clamp", [-2.0, -1.0, 0.0, 1.0, 2.0], low, high)
    assert by_x == [0, 1, 1, 1, 0]
    assert by_low == [1, 0, 0, 0, 0]
    assert by_high == [0, 0, 0, 0, 1]


def test_clamp_between_crossed_limits_is_the_upper_one() -> None:
    assert value("clamp", [0.0], [2.0], [1.0]).tolist() == [1.0]
    assert gradients("clamp", [0.0], [2.0], [1.0]) == [[0], [0], [1]]


def test_max_pool_gives_the_gradient_to_the_first_of_equal_maxima() -> None:
    geometry = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}
    (result,) = gradients("max_pool", np.ones((2, 4)), **geometry)
    assert result == [[1, 0, 1, 0], [0, 0, 0, 0]]


def test_positions_of_equal_extrema_are_the_first() -> None:
    assert value("argmax", [1.0, 3.0, 3.0], axes=(0,)) == 1
    assert value("argmin", [[2, 1, 1]], axes=(1,)).tolist() == [1]


def test_pow_at_0() -> None:
    base, exponent = gradients("pow", [0.0, 0.0, 0.0, 2.0], [0.0, 1.0, 2.0, 0.0])
    assert base == [0, 1, 0, 0]
    assert exponent[:3] == [0, 0, 0]
    assert exponent[3] == pytest.approx(math.log(2))


def test_products_with_zeros() -> None:
    (result,) = gradients("prod", [[2.0, 0.0, 3.0], [0.0, 0.0, 4.0]], axes=(1,))
    assert result == [[0, 6, 0], [0, 0, 0]]


def test_where_gives_no_gradient_to_the_value_not_taken() -> None:
    assert gradients("where", [True, False], [1.0, 2.0], [3.0, 4.0]) == [[1, 0], [0, 1]]


# -- NaN, infinities, rounding --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_nan_wins(name: str) -> None:
    assert np.isnan(value(name, [np.nan, 1.0], [1.0, np.nan])).all()


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("at", [0, 5, 69])
def test_nan_wins_reductions(name: str, at: int) -> None:
    x = np.arange(70.0)
    x[at] = np.nan
    assert np.isnan(value(name, x, axes=(0,)))
    assert value(f"arg{name}", x, axes=(0,)) == at


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "worst"), [("argmax", -np.inf), ("argmin", np.inf)])
def test_positions_in_a_row_of_the_worst(name: str, worst: float, dtype: Any) -> None:
    assert value(name, np.full(70, worst, dtype), axes=(0,)) == 0
    assert value(name, np.full(70, np.nan, dtype), axes=(0,)) == 0


def test_halves_round_to_even() -> None:
    assert value("round", [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]).tolist() == [-2, -2, 0, 0, 2, 2]


@pytest.mark.parametrize("integer", [DType.i32, DType.i64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_casts_to_integers_cut_and_saturate(integer: DType, dtype: Any) -> None:
    x = np.array([1.9, -1.9, np.nan, np.inf, -np.inf, 1e30, -1e30], dtype)
    limits = np.iinfo(integer.numpy)
    expected = [1, -1, 0, limits.max, limits.min, limits.max, limits.min]
    assert value("cast", x, dtype=integer).tolist() == expected


def test_casts_to_bool() -> None:
    x = [0.0, -0.0, 0.5, np.nan, -np.inf]
    assert value("cast", x, dtype=DType.bool).tolist() == [False, False, True, True, True]


@pytest.mark.parametrize("name", ["floordiv", "mod"])
def test_division_rounds_down(name: str) -> None:
    x, y = [7.0, -7.0, 7.0, -7.0, 0.0], [2.0, 2.0, -2.0, -2.0, -3.0]
    expected = np.floor_divide(x, y) if name == "floordiv" else np.remainder(x, y)
    actual = value(name, x, y)
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected))


def test_integers_wrap() -> None:
    top = np.iinfo(np.int32).max
    assert value("add", np.array([top], np.int32), np.array([1], np.int32)) == -top - 1
    assert value("sum", np.array([top, 1], np.int32), axes=(0,)) == -top - 1
    assert value("abs", np.array([-top - 1], np.int32)) == -top - 1


def test_softmax_of_infinities() -> None:
    assert value("softmax", [[-np.inf, 0.0, -np.inf]], axis=1).tolist() == [[0, 1, 0]]
    assert np.isnan(value("softmax", [[-np.inf, -np.inf]], axis=1)).all()
    assert value("softmax", np.full((1, 4), 1e30), axis=1).tolist() == [[0.25] * 4]


def test_cross_entropy_of_rows_that_do_not_count() -> None:
    logits, none = np.zeros((2, 4)), np.array([-100, -100])
    assert np.isnan(value("cross_entropy", logits, none))
    assert value("cross_entropy", logits, none, reduction="sum") == 0
    assert gradients("cross_entropy", logits, none, reduction="sum") == [[[0] * 4] * 2]


# -- nothing to reduce ----------------------------------------------------------------------------


def test_reductions_of_nothing() -> None:
    nothing = np.zeros((2, 0))
    assert value("sum", nothing, axes=(1,)).tolist() == [0, 0]
    assert value("prod", nothing, axes=(1,)).tolist() == [1, 1]
    assert value("any", nothing.astype(bool), axes=(1,)).tolist() == [False, False]
    assert value("all", nothing.astype(bool), axes=(1,)).tolist() == [True, True]
    assert np.isnan(value("mean", nothing, axes=(1,))).all()
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ShapeError, match=rf"{name} of no elements: f64\[2,0\]"):
            build(name, nothing, axes=(1,))


def test_no_axes_is_the_operand() -> None:
    x = np.array([[1.0, -0.0], [np.nan, 4.0]])
    for name in ("sum", "max", "min", "prod"):
        np.testing.assert_array_equal(value(name, x, axes=()), x)


# -- errors ---------------------------------------------------------------------------------------

F = np.zeros((2, 3))
I = np.zeros((2, 3), np.int64)  # noqa: E741
B = np.zeros((2, 3), bool)
WINDOW = {"kernel": (2,), "stride": (1,), "padding": (0,), "dilation": (1,)}
CONV = {"stride": (1,), "padding": (0,), "dilation": (1,), "groups": 1}

BAD: list[tuple[str, tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    ("add", (F, F[0]), {}, ShapeError, r"add takes operands of one shape, got .*\[2,3\], .*\[3\]"),
    ("add", (F, I), {}, DTypeError, r"add takes operands of one dtype, got f64\[2,3\], i64\[2,3\]"),
    ("add", (B, B), {}, DTypeError, r"add does not take bool\[2,3\] as operand 0"),
    ("add", (F,), {}, GraphError, "add takes 2 operands, not 1"),
    ("exp", (I,), {}, DTypeError, r"exp does not take i64\[2,3\] as operand 0[\s\S]*f32, f64"),
    ("where", (F, F, F), {}, DTypeError, r"where does not take f64\[2,3\] as operand 0"),
    ("logical_and", (F, F), {}, DTypeError, "logical_and does not take f64"),
    ("div", (I, I), {}, DTypeError, "div does not take i64"),
    ("sum", (B,), {"axes": (0,)}, DTypeError, "sum does not take bool"),
    ("sum", (F,), {"axes": (2,)}, ShapeError, r"sum: axes \[2\] do not fit f64\[2,3\]"),
    ("sum", (F,), {"axes": (1, 0)}, ShapeError, "sorted, each once"),
    ("sum", (F,), {"axes": (-1,)}, ShapeError, "counted from the front"),
    ("argmax", (F,), {"axes": (0, 1)}, ShapeError, r"argmax takes one axis, not \[0, 1\]"),
    ("argmax", (F,), {"axes": (0,), "dtype": DType.f32}, DTypeError,
     "argmax gives positions as i64 or i32, not f32"),
    ("reshape", (F,), {"shape": (4,)}, ShapeError, r"reshape of f64\[2,3\] to \[4\]"),
    ("reshape", (F,), {"shape": (-2, -3)}, ShapeError, "reshape"),
    ("transpose", (F,), {"permutation": (0, 0)}, ShapeError, r"transpose of f64\[2,3\]"),
    ("broadcast", (F,), {"shape": (2, 4)}, ShapeError, r"f64\[2,3\] .* broadcast to \[2, 4\]"),
    ("broadcast", (F,), {"shape": (3,)}, ShapeError, "does not broadcast"),
    ("slice", (F,), {"start": (0, 0), "size": (3, 3), "step": (1, 1)}, ShapeError,
     "start 0, size 3, step 1 leave the axis"),
    ("slice", (F,), {"start": (0,), "size": (1,), "step": (1,)}, ShapeError, "one item per axis"),
    ("slice", (F,), {"start": (0, 0), "size": (1, 1), "step": (0, 1)}, ShapeError,
     "leave the axis"),
    ("pad", (F, np.zeros(1)), {"low": (0, 0), "high": (0, 0), "interior": (0, 0)}, ShapeError,
     "a 0-d fill"),
    ("pad", (F, F[0, 0]), {"low": (-1, 0), "high": (0, 0), "interior": (0, 0)},
     AttributeValueError, "no negative padding"),
    ("concat", (F, F), {"axis": 2}, ShapeError, "axis 2 is out of range"),
    ("concat", (F, F.T), {"axis": 0}, ShapeError, r"f64\[2,3\], f64\[3,2\] differ in another axis"),
    ("concat", (), {"axis": 0}, ShapeError, "at least one operand"),
    ("matmul", (F, F), {}, ShapeError, r"matmul of f64\[2,3\] and f64\[2,3\]: shapes cannot"),
    ("matmul", (F[0], F.T), {}, ShapeError, r"matmul of f64\[3\] and"),
    ("matmul", (F, I.T), {}, DTypeError, "matmul takes operands of one dtype"),
    ("matmul", (B, B.T), {}, DTypeError, "matmul does not take bool"),
    ("conv", (np.zeros((1, 2, 5)), np.zeros((1, 3, 2))), CONV, ShapeError,
     r"expected 3 input channels, got 2"),
    ("conv", (np.zeros((1, 2, 5)), np.zeros((1, 2, 6))), CONV, ShapeError,
     "window of span 6 does not fit an axis of size 5"),
    ("conv", (np.zeros((1, 2, 5)), np.zeros((1, 2, 2))), CONV | {"groups": 3}, ShapeError,
     "3 groups do not divide"),
    ("conv", (np.zeros((1, 2, 5)), np.zeros((1, 2, 2))), CONV | {"stride": (0,)},
     AttributeValueError, "stride 0"),
    ("conv", (np.zeros((1, 2, 5)), np.zeros((1, 2, 2))), CONV | {"stride": (1, 1)},
     AttributeValueError, "convolution over 1 axes"),
    ("gather", (F, np.zeros((2, 3))), {"axis": 1}, DTypeError, "gather does not take f64"),
    ("gather", (F, np.zeros((3, 3), int)), {"axis": 1}, ShapeError, "does not fit"),
    ("take", (F, np.zeros(2, int)), {"axis": 2}, ShapeError, "axis 2 is out of range"),
    ("index_add", (F, np.zeros(2, int), F[0]), {"axis": 0}, ShapeError, r"is not \[2, 3\]"),
    ("scatter_add", (F, I, F.astype(np.float32)), {"axis": 0}, DTypeError, "of one dtype"),
    ("softmax", (F,), {"axis": 2}, ShapeError, r"softmax: axis 2 is out of range for f64\[2,3\]"),
    ("softmax", (I,), {"axis": 1}, DTypeError, r"softmax takes a float tensor, got i64\[2,3\]"),
    ("gelu", (F,), {"approximate": "tan"}, AttributeValueError, "not 'tan'"),
    ("cross_entropy", (F, np.zeros(3, int)), {}, ShapeError, r"logits f64\[2,3\] and target i64"),
    ("cross_entropy", (F, np.zeros(2)), {}, DTypeError, r"integer targets, got f64\[2\]"),
    ("cross_entropy", (F, np.zeros(2, int)), {"reduction": "avg"}, AttributeValueError, "'avg'"),
    ("layer_norm", (F, F[0], F[0, :2]), {}, ShapeError, r"layer_norm of f64\[2,3\] with weight"),
    ("max_pool", (F[0, :1],), WINDOW, ShapeError, "window of span 2 does not fit"),
    ("max_pool", (F,), WINDOW | {"padding": (2,)}, AttributeValueError, "half of kernel size"),
    ("stack", (F, F.T), {"axis": 0}, ShapeError, r"stack: f64\[3,2\] and f64\[2,3\] differ"),
    ("one_hot", (F,), {"classes": 3}, DTypeError, "one_hot takes integers"),
    ("random_uniform", (np.zeros(3, int),), {"shape": (2,)}, DTypeError, r"one state i64\[2\]"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arrays", "attributes", "error", "message"), BAD,
    ids=[f"{i}-{case[0]}" for i, case in enumerate(BAD)],
)  # fmt: skip
def test_operands_that_do_not_fit(
    name: str, arrays: tuple[Any, ...], attributes: dict[str, Any], error: Any, message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        build(name, *arrays, **attributes)
    assert isinstance(caught.value, GraphError)
    assert caught.value.location is not None
    assert caught.value.location.file == "test_conventions.py"


@pytest.mark.parametrize(
    ("name", "arrays", "attributes", "message"),
    [
        ("take", (F, [0, 2]), {"axis": 0}, "index 2 is out of bounds for dimension 0 with size 2"),
        ("gather", (F, [[0, -1]]), {"axis": 1}, "index -1 is out of bounds for dimension 1"),
        ("scatter_add", (F, [[3]], [[1.0]]), {"axis": 1}, "3 is out of bounds .* with size 3"),
        ("index_add", (F, [5], F[:1]), {"axis": 0}, "index 5 is out of bounds .* with size 2"),
        ("one_hot", ([1, 7],), {"classes": 7}, r"class values .*: 7 is not in \[0, 7\)"),
        ("cross_entropy", (F, [0, 3]), {}, "Target 3 is out of bounds"),
    ],
)  # fmt: skip
def test_indices_out_of_range(name: str, arrays: Any, attributes: Any, message: str) -> None:
    graph, inputs = build(name, *arrays, **attributes)
    with pytest.raises(IndexRangeError, match=message):
        graphc.run(graph, *inputs)
    with pytest.raises(IndexRangeError, match=message):
        graphc.compile(graph)(*inputs)


def test_the_reference_checks_its_arguments() -> None:
    graph, _ = build("exp", F)
    for bad in ((), (F, F), (F.T,), (F.astype(np.float32),)):
        with pytest.raises(graphc.ArgumentError, match="graph 'exp'"):
            graphc.run(graph, *bad)


def test_random_numbers_are_a_function_of_seed_and_position() -> None:
    uniform = ops.generate.random_uniform
    whole, state = uniform.run((np.array([3, 10]),), {"shape": (8,), "dtype": DType.f32})
    tail, _ = uniform.run((np.array([3, 14]),), {"shape": (4,), "dtype": DType.f32})
    np.testing.assert_array_equal(whole[4:], tail)
    assert state.tolist() == [3, 18]
    assert ((whole >= 0) & (whole < 1)).all()
    many, _ = uniform.run((np.array([3, 0]),), {"shape": (10000,), "dtype": DType.f32})
    assert abs(many.mean() - 0.5) < 0.02 and abs(many.var() - 1 / 12) < 0.005
    other, _ = uniform.run((np.array([4, 0]),), {"shape": (10000,), "dtype": DType.f32})
    assert abs(np.corrcoef(many, other)[0, 1]) < 0.05


def test_the_table_is_whole_without_a_frontend() -> None:
    """Importing graphc.ops declares every op, so that a text with any can be parsed."""
    code = "import graphc.ops as o; print(*sorted(op.name for op in o.table()))"
    alone, beside = (
        subprocess.run(
            [sys.executable, "-c", f"{before}{code}"],
            check=True, timeout=60, capture_output=True, text=True,
        ).stdout.split()
        for before in ("", "import frontend; ")
    )  # fmt: skip
    assert len(alone) > 200
    assert alone == beside

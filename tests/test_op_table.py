"""The op table, walked: every op, every sample, every dtype where it makes sense.

Held for each: inferred type = computed type; reference = eager = compiled at `none` = compiled at
`exact`, within the bounds below; `none` and `exact` give the same bits, the latter on one after the
other of the targets that this machine runs; gradients = numeric ones.

The oracle is the reference run in float64 on the same values. Bounds:

| kind | bound |
|---|---|
| elementwise | `op.ulps` units in the last place; 0 is the rounded oracle, bit for bit |
| oscillating Bessel functions in f64 | the same of the greatest magnitude: they have zeros |
| movement, gather, …_set, generate, positions, all integers and bools | equal |
| sum, cumsum, contraction, scatter | 16·ε·Σ|a||b|, summed by the op itself on absolute values |
| prod, cumprod | n·ε·|product| |
| composite, logcumsumexp, region, block_matmul | 32·ε times the greatest magnitude of the result |
| host (NumPy and its LAPACK, at every level) | 256·ε of the same |
| gradients, reference against numeric | 2e-6 of the greatest magnitude, at least 1 (step 1e-5) |
| gradients, eager and compiled against reference | 64·ε of the same, in f64 |
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import graphc
from graphc.autodiff.numeric import numeric_gradients
from graphc.codegen.target import Target, executable, running
from graphc.errors import AttributeValueError, DTypeError
from graphc.ir.registry import lookup, parameters
from graphc.ir.types import COMPILED, DType, TensorType
from graphc.ops.interpreter import evaluate
from graphc.ops.kinds.op import Sample, SampleDrawer
from graphc.records import replace

SUM, COMPOSITE, GRADIENT, HOST = 16, 32, 64, 256
NO_SAMPLES = "none"
CHECKS = {"gradient"}
# Where each storage type begins to take every third sample.
SHARE = {
    DType.f16: 0, DType.bf16: 1, DType.i16: 2, DType.u8: 0, DType.i8: 1, DType.u64: 2,
    DType.u16: 0, DType.u32: 1,
}  # fmt: skip


@cache
def samples_of(op: Any) -> tuple[Sample, ...]:
    return tuple(op.samples(SampleDrawer())) if op.samples else ()


def as_dtype(sample: Sample, dtype: DType) -> Sample | None:
    """The sample with its float operands (its integers, where it has no floats) in `dtype`;
    indices are i64 beside f32, i32 beside f64, but for bytes; graphs among the attributes have the
    float operands' dtype. None where the sample has no such variant."""
    kinds = {operand.dtype.kind for operand in sample.operands}
    main = next((kind for kind in "fib" if kind in kinds), "")
    if main == "f":
        index = np.int32 if dtype is DType.f64 else np.int64
        cast = {
            "f": lambda x: _converted(x, dtype),
            "i": lambda x: x if x.dtype.itemsize == 1 else x.astype(index),
        }
    elif main == "i" and dtype.is_integer:
        fits = all(np.array_equal(x.astype(dtype.numpy), x) for x in sample.operands)
        cast = {"i": lambda x: x.astype(dtype.numpy)}
        if not fits:
            return None
    elif (main == "b" and dtype is DType.bool) or (main == "" and dtype is DType.i64):
        cast = {}
    else:
        return None
    operands = tuple(cast.get(x.dtype.kind, lambda x: x)(x) for x in sample.operands)
    graphs = _retyped_graphs(sample, dtype) if main == "f" else {}
    if graphs is None:
        return None
    return replace(sample, operands=operands, attributes={**sample.attributes, **graphs})


def _retyped_graphs(sample: Sample, dtype: DType) -> dict[str, Any] | None:
    """The attributes that are graphs, with floats in `dtype`; None where those do not compute."""
    graphs = {n: g for n, g in sample.attributes.items() if isinstance(g, graphc.Graph)}
    try:
        by_name = {name: retyped(graph, dtype) for name, graph in graphs.items()}
    except DTypeError:
        return None
    return None if None in by_name.values() else by_name


def retyped(graph: graphc.Graph, dtype: DType) -> graphc.Graph | None:
    """The graph with its float values in `dtype`; None where a constant of it has no such value.
    Raises DTypeError where an op does not take it."""
    builder = graphc.GraphBuilder(graph.name)
    values: dict[graphc.Value, Any] = {}
    for identity, node in enumerate(graph.nodes):
        if node.op == "input":
            type = node.types[0]
            type = type.with_dtype(dtype) if type.dtype.is_float else type
            results = (builder.input(str(node.attribute("name")), type),)
        elif node.op == "constant":
            array = node.attribute("value").array
            kept = array.astype(dtype.numpy) if is_float(array) else array
            if not np.array_equal(kept.astype(array.dtype), array):
                return None
            results = (builder.constant(kept),)
        else:
            operands = tuple(values[value] for value in node.operands)
            results = builder.apply(lookup(node.op), operands, parameters(node))
        values.update({graphc.Value(identity, i): x for i, x in enumerate(results)})
    return builder.finish(*(values[output] for output in graph.outputs))


def _converted(x: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype.is_integer:
        # Away from zero, so that what was positive still divides. NaN has no integer.
        whole = np.nan_to_num(np.sign(x) * np.ceil(np.abs(x) * 2))
        whole = np.clip(whole, -(2.0**30), 2.0**30).astype(np.int64)
        return np.asarray(whole.astype(dtype.numpy))
    return np.asarray(x > 0 if dtype is DType.bool else x, dtype.numpy)


def takes(op: Any, sample: Sample) -> bool:
    types = tuple(TensorType.of(operand) for operand in sample.operands)
    try:
        op.infer(types, op.canonical(sample.attributes))
    except DTypeError:
        return False
    return True


FIRST = 1
"""So many of an op's samples the suite runs in a dtype that it runs; the others are slow."""


def cases() -> list[Any]:
    """Of each op and dtype its first samples, and its further ones."""
    marked = []
    for op in graphc.ops.table():
        counts = {dtype: len(chosen(op, dtype)) for dtype in COMPILED}
        for dtype, count in counts.items():
            name = f"{op.name}-{dtype}"
            if count:
                marked.append(pytest.param(op, dtype, slice(FIRST), id=name))
            if count > FIRST:
                further = slice(FIRST, count)
                slow = pytest.mark.slow
                marked.append(pytest.param(op, dtype, further, id=f"{name}-further", marks=slow))
        if not any(counts.values()):
            marked.append(pytest.param(op, None, slice(0), id=f"{op.name}-{NO_SAMPLES}"))
    return marked


def graph_of(op: Any, sample: Sample) -> graphc.Graph:
    builder = graphc.GraphBuilder(op.name)
    inputs = [
        builder.input(f"x{i}", TensorType.of(operand)) for i, operand in enumerate(sample.operands)
    ]
    return builder.finish(*builder.apply(op, tuple(inputs), dict(sample.attributes)))


def wide(operands: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return tuple(x.astype(np.float64) if is_float(x) else x for x in operands)


def is_float(array: np.ndarray) -> bool:
    return DType.of(array.dtype).is_float


def another_target(number: int, dtype: DType) -> Target:
    """A target that this machine runs: samples and dtypes take turns."""
    targets = executable()
    return targets[(number + list(DType).index(dtype)) % len(targets)] if targets else running()


def oracle(op: Any, sample: Sample) -> tuple[np.ndarray, ...]:
    """The reference in float64 on the sample's values."""
    graphs = {
        name: retyped(value, DType.f64)
        for name, value in sample.attributes.items()
        if isinstance(value, graphc.Graph) and any(map(is_float, sample.operands))
    }
    widened = replace(
        sample, operands=wide(sample.operands), attributes={**sample.attributes, **graphs}
    )
    return graphc.run(graph_of(op, widened), *widened.operands)


def bound(op: Any, sample: Sample, want: np.ndarray, epsilon: float) -> Any:
    """The greatest error allowed of a float result (see the table above), or None for equal."""
    if op.name in ("scatter_set", "index_set"):
        return None
    if op.kind in ("composite", "region") or op.name in ("logcumsumexp", "block_matmul"):
        return COMPOSITE * epsilon * np.max(np.abs(want), initial=0)
    if op.kind in ("contract", "scatter") or op.name in ("sum", "cumsum"):
        absolute = tuple(np.abs(x) if is_float(x) else x for x in sample.operands)
        return SUM * epsilon * oracle(op, replace(sample, operands=absolute))[0]
    if op.name in ("prod", "cumprod"):
        return max(sample.operands[0].size, 1) * epsilon * np.abs(want)
    if op.name.startswith("bessel_") and epsilon == np.finfo(np.float64).eps:
        return op.ulps * epsilon * np.max(np.abs(want), initial=0)
    if op.kind == "host":
        return HOST * epsilon * np.max(np.abs(want), initial=0)
    return None


def same(got: np.ndarray, want: np.ndarray) -> bool:
    """Equal bits, NaN payloads aside."""
    if not is_float(got):
        return np.array_equal(got, want)
    numbers = ~np.isnan(want)
    signs = np.signbit(got[numbers]) == np.signbit(want[numbers])
    return np.array_equal(got, want, equal_nan=True) and bool(signs.all())


def hold(op: Any, sample: Sample, got: tuple[np.ndarray, ...], want: tuple[np.ndarray, ...],
         what: str) -> None:  # fmt: skip
    """`got`, in the sample's dtype, is within the op's bound of the float64 results `want`."""
    assert len(got) == len(want)
    for result, exact in zip(got, want, strict=True):
        if not is_float(result):
            np.testing.assert_array_equal(result, exact, err_msg=what)
            continue
        epsilon = float(ml_dtypes.finfo(result.dtype).eps)
        rounded = exact.astype(result.dtype)
        limit = bound(op, sample, exact, epsilon)
        if limit is None and op.ulps == 0:
            assert same(result, rounded), f"{what}\n{result}\n{rounded}"
            continue
        if limit is None:
            # In float64 the oracle itself is up to 2 units off (libm).
            units = op.ulps + 2 * (result.dtype == np.float64)
            limit = units * np.abs(np.spacing(rounded)).astype(np.float64)
        finite = np.isfinite(exact)
        np.testing.assert_array_equal(
            np.where(finite, 0, result), np.where(finite, 0, rounded), err_msg=what
        )
        with np.errstate(invalid="ignore"):  # infinity less infinity
            error = np.abs(np.where(finite, result.astype(np.float64) - exact, 0))
        assert (error <= np.broadcast_to(limit, error.shape)).all(), (
            f"{what}: error {error.max()}, bound {np.max(limit)}"
        )


def chosen(op: Any, dtype: DType) -> list[tuple[int, Sample]]:
    """The samples, by number, that `op` is given in `dtype`: all that fit, with two exceptions.

    Composites are made of ops that stand in the table themselves: they take all in float32, and
    each further dtype takes every second one, i32 those that i64 leaves out; float64 leaves out
    only what `test_gradients` compiles in float64. What movement does to storage types is the same
    for all of a width: each takes every third (of one byte there is bool too, which takes all).
    """
    fitting = [
        (number, sample)
        for number, drawn in enumerate(samples_of(op))
        if (sample := as_dtype(drawn, dtype)) is not None and takes(op, sample)
    ]
    if op.kind == "movement" and dtype.is_storage and len(fitting) > 2:
        return fitting[SHARE[dtype] :: 3]
    if op.kind != "composite" or dtype is DType.f32 or len(fitting) < 2:
        return fitting
    if dtype is DType.f64:
        derived = op.differentiable and "gradient" not in op.exempt
        return [
            pair for i, pair in enumerate(fitting)
            if i % 2 == 0 or not (derived and pair[1].differentiable)
        ]  # fmt: skip
    return fitting[dtype is DType.i32 :: 2]


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("op", "dtype", "part"), cases())
def test_values(op: Any, dtype: DType | None, part: slice) -> None:
    assert dtype is not None, f"{op.name} has no samples: give its declaration one"
    samples = chosen(op, dtype)[part]
    assert samples
    for number, sample in samples:
        graph = graph_of(op, sample)
        want = oracle(op, sample)
        attributes = op.canonical(sample.attributes)
        eager = op.run(sample.operands, attributes)
        inferred = graph.output_types
        assert tuple(TensorType.of(result) for result in eager) == inferred
        target = another_target(number, dtype)
        runs = {
            "reference": evaluate(graph, sample.operands, reference=True),
            "eager": eager,
            "none": graphc.compile(graph, "none")(*sample.operands),
            "exact": graphc.compile(graph, "exact", target=target)(*sample.operands),
        }
        for name, results in runs.items():
            assert tuple(TensorType.of(result) for result in results) == inferred, name
            hold(op, sample, results, want, f"{op.name}, sample {number}, {dtype}, {name}")
        for a, b in zip(runs["none"], runs["exact"], strict=True):
            label = f"none on {running().name} and exact on {target.name} differ"
            assert same(a, b), f"{op.name}, sample {number}: {label}"


def broken(value: Any) -> Iterator[Any]:
    """An attribute of whole numbers with one of them no longer whole."""
    if type(value) is int:
        yield from (value + 0.5, np.inf)
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from ((*value[:i], other, *value[i + 1 :]) for other in broken(item))


FRACTIONS = {("var", "correction"), ("std", "correction")}
"""Attributes that are whole in all samples and need not be."""


OPS = graphc.ops.table()


def test_whole_numbers_are_whole() -> None:
    """No op takes a half or infinite axis, size, stride …: it says which attribute that is."""
    count = 0
    for op in OPS:
        if op.samples is not None and not op.samples.__module__.startswith("graphc."):
            continue  # of another test
        for sample in samples_of(op):
            attributes = op.canonical(sample.attributes)
            for name, value in attributes.items():
                if (op.name, name) in FRACTIONS:
                    continue
                for other in broken(value):
                    count += 1
                    try:
                        canonical = op.canonical({**attributes, name: other})
                    except AttributeValueError as error:
                        assert f"{op.name}: attribute {name} " in str(error)
                    else:
                        pytest.fail(f"{op.name} takes {canonical}")
    assert count > 1000


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_exemptions_have_reasons(op: Any) -> None:
    assert op.exempt.keys() <= CHECKS
    assert all(len(reason) > 10 for reason in op.exempt.values())
    floats = [s for each in samples_of(op) if (s := as_dtype(each, DType.f64)) and takes(op, s)]
    between_floats = any(
        any(x.dtype.kind == "f" for x in s.operands)
        and any(type.dtype.is_float for type in graph_of(op, s).output_types)
        for s in floats
    )
    if between_floats and "gradient" not in op.exempt:
        assert op.differentiable, f"{op.name} maps floats to floats and has no gradient"
        assert any(s.differentiable for s in floats)


def close(got: np.ndarray, want: np.ndarray, factor: float) -> None:
    assert got.shape == want.shape
    if want.size == 0:
        return
    error = np.max(np.abs(got - want))
    scale = max(float(np.max(np.abs(want))), 1.0)
    assert error <= factor * scale, f"error {error}, allowed {factor} of {scale}\n{got}\n{want}"


def differentiable_cases() -> list[Any]:
    return [
        pytest.param(op, s, id=f"{op.name}-{number}")
        for op in graphc.ops.table()
        if op.differentiable and "gradient" not in op.exempt
        for number, each in enumerate(samples_of(op))
        if each.differentiable
        and (s := as_dtype(each, DType.f64)) is not None
        and any(x.dtype.kind == "f" for x in s.operands)
        and graph_of(op, s).output_types[0].dtype.is_float
    ]


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("op", "sample"), differentiable_cases())
def test_gradients(op: Any, sample: Sample) -> None:
    import frontend

    graph = graph_of(op, sample)
    arrays = sample.operands
    wrt = [i for i, array in enumerate(arrays) if array.dtype.kind == "f"]
    random = np.random.default_rng(1)
    joint = graphc.joint(graph)
    scalar = len(joint.inputs) == len(graph.inputs)
    outputs = graph.output_types
    cotangents = [
        (np.ones(()) if scalar else random.standard_normal(type.shape)).astype(type.dtype.numpy)
        if type.dtype.is_float else None
        for type in outputs
    ]  # fmt: skip
    weights = [cotangent for cotangent in cotangents if cotangent is not None]
    inputs = arrays if scalar else (*arrays, *weights)
    output = outputs[0]

    derived = graphc.run(joint, *inputs)[len(outputs) :]
    numeric = numeric_gradients(
        lambda *values: evaluate(graph, values, reference=False), arrays, cotangents, wrt
    )
    narrow = output.dtype is DType.f32  # a cast to f32 rounds what the numeric gradient measures
    for got, want in zip(derived, numeric, strict=True):
        close(got, want, 2e-2 if narrow else 2e-6)

    factor = GRADIENT * float(np.finfo(output.dtype.numpy).eps)
    compiled = graphc.compile(joint)(*inputs)[len(outputs) :]
    for got, want in zip(compiled, derived, strict=True):
        close(got, want, factor)

    tensors = [frontend.from_numpy(array.copy()) for array in arrays]
    for i in wrt:
        tensors[i].requires_grad_()
    result = op(*tensors, **sample.attributes)
    results = result if isinstance(result, tuple) else (result,)
    floats = [x for x, weight in zip(results, cotangents, strict=True) if weight is not None]
    given_weights = [frontend.from_numpy(weight) for weight in weights]
    taped = frontend.autograd.grad(floats, [tensors[i] for i in wrt], given_weights)
    for got, want in zip(taped, derived, strict=True):
        close(got.numpy(), want, factor)


# -- special values -------------------------------------------------------------------------------

SPECIAL = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.0, -2.5, 3.0, np.inf, -np.inf, np.nan, 1e-3, 88.7,
    -88.7, 104.0, -104.0, 1e10, -1e10, "tiny", "-tiny", "least", "-least", "largest", "-largest",
)  # fmt: skip


def special_values(dtype: DType) -> np.ndarray:
    info = np.finfo(dtype.numpy)
    named = {"tiny": info.tiny, "least": info.smallest_subnormal, "largest": info.max}
    return np.array(
        [
            x if isinstance(x, float) else named[x.lstrip("-")] * (-1 if x[0] == "-" else 1)
            for x in SPECIAL
        ],
        dtype.numpy,
    )


def special_cases() -> list[Any]:
    return [
        pytest.param(op, dtype, id=f"{op.name}-{dtype}")
        for op in graphc.ops.table()
        if op.kind == "elementwise" and not op.parameters
        for dtype in (DType.f32, DType.f64)
        if dtype in op.dtypes
    ]


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("op", "dtype"), special_cases())
def test_special_values(op: Any, dtype: DType) -> None:
    """Every combination of NaN, infinities, zeros of both signs, subnormals, the largest and
    arguments near overflow, against NumPy in the same dtype; signs of zeros count."""
    values = special_values(dtype)
    if op.arity == 3:
        values = values[[0, 1, 2, 3, 10, 11, 12]]
    grids = np.meshgrid(*[values] * op.arity, indexing="ij")
    operands = [np.ascontiguousarray(grid.ravel()) for grid in grids]
    if op.predicate:
        operands[0] = operands[0] > 0
    sample = Sample(tuple(operands))
    graph = graph_of(op, sample)
    (native,) = graphc.compile(graph)(*operands)
    (want,) = op.run(tuple(operands), {})
    agrees, expected = _agrees(op, operands, native, want)
    wrong = np.flatnonzero(~agrees)
    listed = [
        f"{op.name}({', '.join(str(x[i]) for x in operands)}) is {native[i]}, not {expected[i]}"
        for i in wrong[:12]
    ]
    assert not len(wrong), f"{len(wrong)} wrong\n" + "\n".join(listed)


def _agrees(
    op: Any, operands: list[np.ndarray], native: np.ndarray, want: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where `native` is right, and what it is held to: the bits of `want`, or within `op.ulps` of
    float64 (2 more for the libm of float64). Results that are not normal may differ by the least
    normal spacing."""
    if op.ulps == 0:
        return np.array([same(a, b) for a, b in zip(native, want, strict=True)]), want
    exact = op.run(wide(tuple(operands)), {})[0]
    with np.errstate(all="ignore"):
        rounded = exact.astype(native.dtype)
        least = np.finfo(native.dtype).tiny
        limit = (op.ulps + 2) * np.spacing(np.maximum(np.abs(rounded), least))
        near = np.abs(native.astype(np.float64) - exact) <= limit
    equal = (native == rounded) | (np.isnan(native) & np.isnan(rounded))
    return np.where(np.isfinite(rounded), near, equal), rounded

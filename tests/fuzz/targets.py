"""Drawn programs of products, sums and functions: the same bits natively on every target that this
machine runs, and, where the values are few, interpreted on all others. Each target has a plan of
its own, so tiles and layouts differ too."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
from graphc import ops
from graphc.codegen.program.run_plan import run_plan_by_loops
from graphc.codegen.target import executable, named
from graphc.ir.types import DType
from graphc.ops.paired_convolution import (
    conv_of_halves,
    input_grad_of_halves,
    weight_grad_of_halves,
)
from graphc.schedule.build import plan_graph
from tests.fuzz.frame import Fuzzer

Array = np.ndarray[Any, Any]
FUNCTIONS = (
    "sin", "cos", "tan", "exp", "log", "tanh", "erf", "erfc", "sigmoid", "sqrt", "abs", "atan",
    "sinh", "asinh", "expm1", "log1p", "digamma", "erfinv", "lgamma", "round",
)  # fmt: skip
NAMES = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4+bf16", "x86-64-v4+vnni", "aarch64")
INTERPRETED = 150  # elements of an argument

Case = tuple[int, int]  # the seed of a program, how many steps it has


def drawn(case: Case) -> tuple[graphc.Graph, list[Array]]:
    random = np.random.default_rng(case[0])
    rows, columns = random.integers(1, 90, 2)
    dtype = str(random.choice(["f32", "f32", "f32", "f64"]))
    b = graphc.GraphBuilder("drawn")
    values = [b.input(name, f"{dtype}[{rows},{columns}]") for name in "xy"]
    for _ in range(case[1]):
        one, other = (values[i] for i in random.integers(0, len(values), 2))
        kind = random.integers(0, 6)
        if kind == 0:
            values.append(one * other + 0.5)
        elif kind == 1:
            square = one @ ops.transpose(other, permutation=(1, 0))
            values.append(ops.tanh(square * 0.1) @ one)
        elif kind == 2:
            axis = int(random.integers(0, 2))
            kept = tuple(1 if i == axis else dim for i, dim in enumerate(one.shape))
            total = ops.reshape(ops.sum(one, axes=(axis,)), shape=kept)
            values.append(other - ops.broadcast(total, shape=one.shape))
        elif kind == 4:
            values.append(product_of_halves(random, one, other))
        elif kind == 5:
            values.append(convolution_of_halves(random, one, other))
        else:
            values.append(getattr(ops, str(random.choice(FUNCTIONS)))(one))
    graph = b.finish(*values[-3:])
    arrays = [random.standard_normal((rows, columns)) * 3 for _ in range(2)]
    return graph, [array.astype(graph.input_types[0].dtype.numpy) for array in arrays]


def product_of_halves(random: np.random.Generator, one: Any, other: Any) -> Any:
    """x yᵀ x of bf16 or f16, some of it so small that products underflow."""
    half = DType.bf16 if random.integers(0, 4) else DType.f16
    scale = float(random.choice([1.0, 1.0, 2.0**-30, 2.0**-62]))
    x, y = (ops.cast(each * scale, dtype=half) for each in (one, other))
    square = ops.paired_matmul(x, ops.transpose(y, permutation=(1, 0)))
    result = ops.paired_matmul(ops.cast(square, dtype=half), x)
    return ops.cast(result, dtype=one.dtype)


def convolution_of_halves(random: np.random.Generator, one: Any, other: Any) -> Any:
    """Two planes of bf16 or f16, their convolution with drawn weights, and its gradients by them
    and by the weights: channels, and positions of an even number, in pairs."""
    half = DType.bf16 if random.integers(0, 4) else DType.f16
    kernel = (int(random.choice([1, 2, 3])), int(random.choice([1, 3])))
    stride = tuple(map(int, random.integers(1, 3, 2)))
    how = {
        "stride": stride, "padding": tuple(k // 2 for k in kernel), "dilation": (1, 1), "groups": 1
    }  # fmt: skip
    planes = ops.reshape(ops.concat(one, other, axis=0), shape=(1, 2, *one.shape))
    x = ops.cast(planes, dtype=half)
    drawn = random.standard_normal((4, 2, *kernel)).astype(one.dtype.numpy)
    w = ops.cast(one.context.constant(drawn), dtype=half)
    y = ops.cast(conv_of_halves(x, w, **how), dtype=half)
    by_w = weight_grad_of_halves(x, y, kernel=kernel, **how)
    by_x = input_grad_of_halves(y, ops.cast(by_w * 2.0**-6, dtype=half), size=one.shape, **how)
    plane = ops.slice(by_x, start=(0, 1, 0, 0), size=(1, 1, *one.shape), step=(1,) * 4)
    return ops.cast(ops.reshape(plane, shape=one.shape), dtype=one.dtype)


def draw(random: np.random.Generator, size: int) -> Case:
    return int(random.integers(1 << 30)), size


def check(case: Case) -> str:
    from tests.conftest import _same_bits

    graph, arrays = drawn(case)
    results = {
        target.name: graphc.compile(graph, target=target)(*arrays) for target in executable()
    }
    end = f"{len(results)} native"
    if arrays[0].size <= INTERPRETED:
        _, plan = plan_graph(graph)
        for name in NAMES:
            results[f"{name}, interpreted"] = run_plan_by_loops(plan, tuple(arrays), named(name))
        end += f", {len(NAMES)} interpreted"
    (first, expected), *others = results.items()
    for name, actual in others:
        _same_bits(actual, expected, f"{first} and {name}\n{graph}")
    return end


def program(case: Case) -> str:
    lines = "".join(f"# {line}\n" for line in str(drawn(case)[0]).splitlines())
    return f"{lines}from tests.fuzz import targets\ntargets.check({case!r})"


FUZZER = Fuzzer("targets", draw, check, program)

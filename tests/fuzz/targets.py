"""Drawn programs of products, sums and functions: the same bits natively on every target that this
machine runs, and, where the values are few, interpreted on all others; every fourth program is also
built for AArch64 and run there, where a compiler and an emulator for it are installed. Each target
has a plan of its own, so tiles and layouts differ too."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import graphc
from graphc import ops
from graphc.build.building import build
from graphc.build.built_source import source_of_graph
from graphc.codegen.program.run_plan import run_plan_by_loops
from graphc.codegen.target import executable, named
from graphc.ir.types import DType
from graphc.schedule.build import plan_graph
from tests.build.c_programs import ARM, EMULATED, proves
from tests.fuzz import narrow
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
    arrays = [random.standard_normal((rows, columns)) * 3 for _ in range(2)]
    arrays = [array.astype(values[0].dtype.numpy) for array in arrays]
    maker, apart = narrow.Maker(random, b, arrays), []
    for _ in range(case[1]):
        one, other = (values[i] for i in random.integers(0, len(values), 2))
        kind = random.integers(0, 7)
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
        elif kind in (4, 5):
            made = narrow_product(maker, one)
            if made.shape == one.shape:
                values.append(one - ops.cast(made, dtype=one.dtype))
            else:
                apart.append(ops.tanh(made))
        else:
            values.append(getattr(ops, str(random.choice(FUNCTIONS)))(one))
    return b.finish(*values[-3:], *apart), arrays


def narrow_product(maker: narrow.Maker, one: Any) -> Any:
    """A product of narrow operands, f32, most with the shape of `one`, which may be an operand."""
    rows, columns = one.shape
    k = int(maker.one([1, 2, 5, 8, 17, 40, 70]))
    kind = int(maker.random.integers(0, 8))
    if kind == 0:
        return narrow.product_of_halves(maker, rows, columns, k).handle
    if kind == 1:
        return narrow.product_of_bytes(maker, rows, columns, k).handle
    if kind == 2:
        return narrow.convolution_of_halves(maker, 80).handle
    if kind == 3:
        return narrow.convolution_of_bytes(maker, 80).handle
    if kind == 4:
        return narrow.attention(maker, 12).handle
    if kind == 7:
        return narrow.product_of_blocks(maker, rows, columns, k).handle
    gguf = kind == 5
    k = int(maker.one([32, 64, 256])) if gguf else k
    more = maker.floats(rows, k)
    if k >= columns:  # what was drawn before and drawn numbers behind it
        behind = maker.input(more[:, columns:])
        x = ops.concat(ops.cast(one, dtype=DType.f32), behind, axis=1)
    else:
        x = maker.input(more)
    unknown = np.zeros_like(more, np.float64)
    product = narrow.Product(x, unknown, unknown)
    return narrow.product_with_weight(maker, product, columns, gguf).handle


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
    if case[0] % 4 == 0 and has_emulator():
        emulated(graph, arrays)
        end += ", one emulated"
    (first, expected), *others = results.items()
    for name, actual in others:
        _same_bits(actual, expected, f"{first} and {name}\n{graph}")
    return end


@cache
def has_emulator() -> bool:
    return bool(shutil.which(ARM[0]) and shutil.which(EMULATED[0]))


def emulated(graph: graphc.Graph, arrays: list[Array]) -> None:
    """Built for AArch64: a program proves that its bits are those of this machine."""
    with TemporaryDirectory() as folder:
        source = source_of_graph(graph, arrays)
        build(source, folder, target="aarch64", name="drawn_program", calls=1)
        proves(Path(folder), "drawn_program", ARM, *EMULATED)


def program(case: Case) -> str:
    lines = "".join(f"# {line}\n" for line in str(drawn(case)[0]).splitlines())
    return f"{lines}from tests.fuzz import targets\ntargets.check({case!r})"


FUZZER = Fuzzer("targets", draw, check, program)

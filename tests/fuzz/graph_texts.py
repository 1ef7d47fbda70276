"""Texts for `graphc.parse`: each is a graph that prints and reads back as itself, or a ParseError
with line and column, soon.

A text is drawn as tokens: those of whole graphs, of which some are left out, doubled, swapped or
replaced by others, among them what has been trouble: deep nesting, long numbers, digits of other
scripts, wrong base64, shapes without end.
"""

from __future__ import annotations

import functools
import re
import time
import warnings

import numpy as np

import graphc
from graphc.errors import DTypeError, ParseError
from graphc.ir.printer import print_graph
from graphc.ops.kinds.op import SampleDrawer
from tests.fuzz.frame import Broken, Fuzzer, without_parts

SECONDS = 10.0
_PLACE = re.compile(r"line \d+, column \d+: ")
_TOKENS = re.compile(r'\s+|"(?:[^"\\]|\\.)*"|%?[A-Za-z0-9_.]+(?:\[[^\]\n]*\])?|->|.', re.DOTALL)

STRANGE = (
    "[" * 1000, "[" * 100_000, "]", "1" * 5000, "1" * 50_000 + "x", "-" + "9" * 4300, "1e400",
    "-inf", "nan", "1e-400", "0x10", "٣", "f32[٣]", "²", "i32[99999999999999999999]", ".5", "1.",
    "f32[4294967296,4294967296]", "f32[0,4611686018427387904,4]", "f64[" + "1," * 70 + "1]",
    "bool[2]", "f32[" + " " * 5000, "f32[" + "1 ," * 5000, "f32[1099511627776] splat 1.0",
    'f32[1] base64 "AAAA"', 'f32[1] base64 "é"', 'f32[1] base64 "\x00"', 'u8[3] base64 "AAAA"',
    "splat", "base64", '"', '"\\', '"\\n\\"', "//", "/", "\x00", "\ud800", "\u2028", "\t", "%",
    "%x", "%1.1", "graph", "return", "->", "constant", "true", "none", "f32", "graph g() {",
    "axes=[9223372036854775808]", "axes=[-1]", "shape=[1099511627776]", "dtype=bool", "index=0",
    "shape=[-1]", "axis=7", "size=[0]", "step=[0, 0]", 'equation="ij,jk->ik"', "\r", "{", "}", "(",
)  # fmt: skip


@functools.cache
def whole() -> tuple[str, ...]:
    """A graph for every sample of every op, and one with a graph inside."""
    texts = []
    for op in graphc.ops.table():
        for sample in op.samples(SampleDrawer()):
            builder = graphc.GraphBuilder("sample")
            types = [graphc.TensorType.of(array) for array in sample.operands]
            operands = tuple(builder.input(f"x{i}", type) for i, type in enumerate(types))
            try:
                graph = builder.finish(*builder.apply(op, operands, sample.attributes))
            except DTypeError:
                continue  # samples hold float64, which not every op takes
            texts.append(print_graph(graph, locations=False))
    return tuple(texts)


@functools.cache
def pool() -> tuple[str, ...]:
    """All tokens there are."""
    return tuple(sorted({token for text in whole() for token in _TOKENS.findall(text)}))


def draw(random: np.random.Generator, size: int) -> str:
    texts = whole()
    tokens = _TOKENS.findall(texts[int(random.integers(len(texts)))])
    for _ in range((size + 3) // 4):  # a graph with many changes is no graph for many reasons
        tokens = tokens or [" "]
        at = int(random.integers(len(tokens)))
        match int(random.integers(6)):
            case 0:
                del tokens[at : at + int(random.integers(1, 4))]
            case 1:
                tokens[at:at] = tokens[at : at + int(random.integers(1, 20))]
            case 2:
                alike = [token for token in pool() if token[:1] == tokens[at][:1]] or [""]
                tokens[at] = alike[int(random.integers(len(alike)))]
            case 3:
                tokens[at : at + 1] = [STRANGE[int(random.integers(len(STRANGE)))]]
            case 4:
                tokens.insert(at, STRANGE[int(random.integers(len(STRANGE)))])
            case _:
                tokens = _nested(tokens, int(random.integers(1, 90)))
    return "".join(tokens)


def _nested(tokens: list[str], levels: int) -> list[str]:
    """A graph in a graph in a graph."""
    heads = ["graph g() {\n  %1 = cond() "] * levels
    return [*heads, *tokens, *[" : f32[]\n return %1 }"] * levels]


def check(text: str) -> str:
    start = time.process_time()  # others may hold up the wall's clock
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        end = _end(text)
    if time.process_time() - start > SECONDS:
        raise Broken(f"it took {time.process_time() - start:.0f} seconds")
    return end


def _end(text: str) -> str:
    try:
        graph = graphc.parse(text)
    except ParseError as error:
        if not _PLACE.match(str(error)):
            raise Broken(f"an error without its place: {error}") from error
        return "refused"
    graphc.verify(graph)
    if graphc.parse(str(graph)) != graph:
        raise Broken("it does not read back as itself")
    return "a graph"


def program(text: str) -> str:
    return f"import graphc\ngraphc.parse({text!r})"


FUZZER = Fuzzer("graph_texts", draw, check, program, without_parts)

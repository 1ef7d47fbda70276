"""The text of graphs is what the grammar of docs/ir.md says."""

from __future__ import annotations

import re

import graphc
from graphc.ir.dims import dim
from graphc.ir.printer import print_graph
from graphc.ir.types import DType, TensorType
from graphc.ops.elementwise import exp
from graphc.ops.movement import concat
from tests.ebnf import Recognizer
from tests.fuzz.graph_texts import whole
from tests.schedule.test_regions import choosing, doubling, running

N = dim("n", 2, 512)


def opened() -> graphc.Graph:
    g = graphc.GraphBuilder("opened")
    x = g.input("x", TensorType(DType.f32, (3 * N + 1, 5)))  # type: ignore[arg-type]
    return g.finish(concat(x, exp(x), axis=0), aliases=[])


def test_texts_of_ops_are_what_the_grammar_says() -> None:
    """One of each op, of every attribute's name and kind of value: the shortest."""
    recognizer, texts = Recognizer.of("Graph"), dict[str, str]()
    for text in sorted(whole(), key=len):
        op = re.findall(r"= (\w+)", text)[-1]
        texts.setdefault(op, text)
    assert len(texts) > 100
    refused = [text for text in texts.values() if not recognizer.reads(text, "graph")]
    assert not refused, "\n".join(refused)


def test_regions_sizes_and_locations_are_what_the_grammar_says() -> None:
    recognizer = Recognizer.of("Graph")
    for graph in (choosing(), doubling(), running(), opened()):
        for text in (str(graph), print_graph(graph, locations=False)):
            assert recognizer.reads(text, "graph"), text
            for symbol in ("{", ":", "return"):
                assert not recognizer.reads(text.replace(symbol, "", 1), "graph"), symbol

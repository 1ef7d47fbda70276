"""The pass on networkx that CONTRIBUTING shows, as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

import frontend as torch
import graphc
from frontend import nn
from graphc.ir.verifier import verify

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def own_pass() -> Any:
    text = PAGE.read_text("utf-8")
    (code,) = re.findall(r"```python\n(import networkx\n.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    return names["smallest_first"]


def test_it_gives_a_graph_of_the_same_nodes_in_another_order() -> None:
    net = nn.Sequential(nn.Linear(6, 50), nn.ReLU(), nn.Linear(50, 3), nn.Softmax(-1))
    graph = torch.trace(lambda x: (net(x), x.sum(), x * 2), torch.ones(4, 6))
    sorted_one = verify(own_pass()(graph))
    assert [node.op for node in sorted_one.nodes] != [node.op for node in graph.nodes]
    assert sorted(node.op for node in sorted_one.nodes) == sorted(node.op for node in graph.nodes)
    arrays = [np.random.default_rng(1).random(t.shape, np.float32) for t in graph.input_types]
    for one, other in zip(graphc.run(graph, *arrays), graphc.run(sorted_one, *arrays), strict=True):
        np.testing.assert_array_equal(one, other)
    before, after = graphc.compile(graph)(*arrays), graphc.compile(sorted_one)(*arrays)
    assert len(before) == 3
    for one, other in zip(before, after, strict=True):
        assert one.tobytes() == other.tobytes()

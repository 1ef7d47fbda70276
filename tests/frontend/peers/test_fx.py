"""fx against PyTorch's: the same graphs and code for the same functions and Modules."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import frontend

from .conftest import Peer


def network(s: Any) -> Any:
    class Block(s.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = s.nn.Linear(3, 3)
            self.weight = s.nn.Parameter(s.ones(3))
            self.register_buffer("shift", s.zeros(3))
            self.parts = s.nn.Sequential(s.nn.ReLU(), s.nn.Linear(3, 2))

        def forward(self, x: Any, y: Any = None, *, k: int = 2) -> Any:
            a = s.relu(self.linear(x)) + 1
            b = (1 - a) * self.weight + self.shift
            c = b.view(-1, 3).sum(dim=1, keepdim=True)
            d = s.cat([c, b], 1)[:, 1:]
            e = self.parts(d)
            first, second = e.unbind(1)
            total = e.shape[0] + e @ e.T
            return {"a": (-total, ~(first > 0)), "s": [second**2, d.to(s.float64)]}

    Block.forward.__annotations__ = {}  # PyTorch repeats them in texts and code
    return Block()


FUNCTIONS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "operators": lambda s: lambda x: (x + 1, 1 - x, x // 2, x % 3, x @ x.T, 2**x, x & 1, x != 2),
    "comparisons": lambda s: lambda x: (x == 1, x < 2, x >= 3, -x, +x),
    "names": lambda s: lambda x: (x.sum().sum().max(), s.sum(x), x.view(-1).view(3, 2)),
    "defaults": lambda s: lambda x, k=2, *, m=1.5: x * k + m,
    "items": lambda s: lambda x: x[None, ..., 0, 1:2, ::2],
    "attributes": lambda s: lambda x: x.T.shape[0] * x.mT,
    "nested": lambda s: lambda x: s.stack([x, (x, x)[0]], dim=0),
    "factories": lambda s: lambda x: s.zeros_like(x, dtype=s.float64) + float("inf"),
    "unpacking": lambda s: lambda x: [half * 2 for half in (lambda a, b: (b, a))(*pair(x))],
}


def pair(x: Any) -> Any:
    left, right = x.chunk(2)
    return left, right


def lines(text: str) -> list[str]:
    return [re.sub(r"\s+", " ", line).strip() for line in text.splitlines() if line.strip()]


def compare(peer: Peer, make: Callable[[Any], Any]) -> None:
    graphs = [import_module(f"{s.__name__}.fx").symbolic_trace(make(s)) for s in
              (frontend, peer.torch)]  # fmt: skip
    ours, theirs = graphs
    assert lines(str(ours.graph)) == lines(str(theirs.graph))
    assert lines(ours.code) == lines(theirs.code)
    for mine, other in zip(ours.graph.nodes, theirs.graph.nodes, strict=True):
        assert (mine.op, mine.name, str(mine.args)) == (other.op, other.name, str(other.args))
        assert [str(user) for user in mine.users] == [str(user) for user in other.users]
    assert lines(repr(ours)) == lines(repr(theirs))


def test_a_module(peer: Peer) -> None:
    compare(peer, network)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(peer: Peer, name: str) -> None:
    compare(peer, FUNCTIONS[name])


def test_a_traced_module_computes_the_same(peer: Peer) -> None:
    def call(s: Any, x: Any, weight: Any) -> Any:
        fx = import_module(f"{s.__name__}.fx")
        module = network(s)
        with s.no_grad():
            for parameter in module.parameters():
                parameter.fill_(0.25)
        return fx.symbolic_trace(module)(x * weight)

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    peer.function(call, x, x[:1] + 1, modes=("eager",))


REFUSED = {
    "if": lambda x: x if x.sum() > 0 else -x,
    "for": lambda x: [item for item in x],
    "len": lambda x: len(x),
    "int": lambda x: int(x),
    "range": lambda x: list(range(x)),
    "in": lambda x: 3 in x,
    "keywords": lambda x: dict(**x),
    "and": lambda x: x and 1,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_proxy_cannot_do(peer: Peer, name: str) -> None:
    texts = []
    for s in (frontend, peer.torch):
        with pytest.raises(Exception) as raised:
            import_module(f"{s.__name__}.fx").symbolic_trace(REFUSED[name])
        texts.append((raised.type.__name__, str(raised.value)))
    assert texts[0] == texts[1]


def test_changes(peer: Peer) -> None:
    def run(s: Any, log: list[Any]) -> Any:
        fx = import_module(f"{s.__name__}.fx")
        module = fx.symbolic_trace(lambda x, y: (s.relu(s.relu(x) + y) + x) * 2)
        graph = module.graph
        matches = fx.replace_pattern(
            module, lambda a, b: s.relu(a) + b, lambda a, b: s.maximum(a, b)
        )
        log.append(len(matches))
        node = graph.find_nodes(op="call_function", target=s.maximum)[0]
        with graph.inserting_after(node):
            new = graph.call_function(s.neg, (node,))
        node.replace_all_uses_with(new, lambda user: user is not new)
        with graph.inserting_before(node):
            graph.call_method("abs", (node.args[0],))
        log.append([n.op for n in graph.nodes])
        log.append(graph.eliminate_dead_code())
        graph.lint()
        module.recompile()
        log.append([n.op for n in graph.nodes])
        copied = fx.Graph()
        result = copied.graph_copy(graph, {})
        copied.output(result)
        log.append(len(copied.nodes))
        return module(s.arange(3.0) - 1, s.ones(3)).tolist()

    peer.script(run)

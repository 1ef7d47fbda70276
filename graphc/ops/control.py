"""Control flow: a branch, a loop that ends by its data, a loop over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.ir.builder import GraphBuilder
from graphc.ir.nodes import Graph
from graphc.ops import elementwise as e
from graphc.ops.contract import matmul
from graphc.ops.kinds.op import Sample, SampleDrawer
from graphc.ops.kinds.region import GRADIENT_RULES, Cond, TimeLoop, WhileLoop


def _rule(name: str) -> Any:
    """The gradient rule of a region op, which `graphc.autodiff` gives."""
    return lambda *handles, **attributes: GRADIENT_RULES[name](*handles, **attributes)


def _region(name: str, body: Any, *types: str) -> Graph:
    builder = GraphBuilder(name)
    results = body(*[builder.input(f"x{i}", type) for i, type in enumerate(types)])
    return builder.finish(*results)


def _cond_samples(m: SampleDrawer) -> list[Sample]:
    types = ("f64[3,4]", "f64[3,4]")
    then = _region("then", lambda x, y: (e.tanh(x) * y, x), *types)
    otherwise = _region("otherwise", lambda x, y: (x + y, y * y), *types)
    operands = (m.normal(3, 4), m.normal(3, 4))
    return [
        m(np.asarray(flag), *operands, then=then, otherwise=otherwise) for flag in (True, False)
    ]


def _while_samples(m: SampleDrawer) -> list[Sample]:
    # Halve until all is below a limit; once at its beginning, once many times, once not at all.
    condition = _region(
        "condition", lambda x, count, limit: (e.lt(limit, x),), "f64[]", "f64[5]", "f64[]"
    )
    body = _region("body", lambda x, count, limit: (x * 0.5, count + 1), "f64[]", "f64[5]", "f64[]")
    return [
        m(np.asarray(start), m.normal(5), np.asarray(1.0), carry=2, condition=condition,
          body=body)
        for start in (1.5, 1e4, 0.5)
    ]  # fmt: skip


def _scan_samples(m: SampleDrawer) -> list[Sample]:
    def cell(h: Any, x: Any, w: Any) -> tuple[Any, ...]:
        new = e.tanh(matmul(h, w) + x)
        return new, new * 2, x

    body = _region("body", cell, "f64[3,4]", "f64[3,4]", "f64[4,4]")
    running = _region("body", lambda s, x: (s + x, s), "f64[]", "f64[]")
    parts: dict[str, Any] = {"carry": 1, "sequences": 1, "body": body}
    xs = (m.normal(3, 4), m.normal(6, 3, 4), m.normal(4, 4))
    return [
        m(*xs, length=6, **parts),
        m(*xs, length=6, reverse=True, **parts),
        m(xs[0], m.normal(1, 3, 4), xs[2], length=1, **parts),
        m(m.normal(), m.normal(5), carry=1, sequences=1, length=5, body=running),
        m(m.normal(), m.normal(0), carry=1, sequences=1, length=0, body=running),
    ]


cond = Cond("cond", vjp=_rule("cond"), samples=_cond_samples)
while_loop = WhileLoop(
    "while_loop", vjp=None, samples=_while_samples,
    exempt={"gradient": "what backward would need of the runs has no size known beforehand"},
)  # fmt: skip
scan = TimeLoop("scan", vjp=_rule("scan"), samples=_scan_samples)

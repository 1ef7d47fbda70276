"""Every op's gradient rule with every subset of the operands that want a gradient: weights are
frozen one by one, and each choice is a rule of its own.

Held for each sample and subset: the rule computes nothing from an operand or result that the wanted
gradients do not need, whichever results have gradients (a tape keeps only those, and eager mode
runs a rule as it stands), and the gradients are those of all operands at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import frontend
import graphc
from graphc.autodiff.sweep import reads, traced_rule
from graphc.ir.graph_queries import live_nodes
from graphc.ir.registry import unregister
from graphc.ir.types import DType, TensorType
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import Sample
from graphc.ops.kinds.region import Region
from tests.test_op_table import as_dtype, samples_of, takes

Flags = tuple[bool, ...]


def differentiable_samples(op: Any) -> list[Sample]:
    """Those of float64 that have a gradient."""
    fitting = [s for each in samples_of(op) if (s := as_dtype(each, DType.f64)) and takes(op, s)]
    return [s for s in fitting if s.differentiable and any(x.dtype.kind == "f" for x in s.operands)]


def ops() -> list[Any]:
    """Those that have a rule, and are not only differentiated part by part."""
    return [
        op for op in graphc.ops.table()
        if op.vjp is not None and "gradient" not in op.exempt and differentiable_samples(op)
    ]  # fmt: skip


def by_cost() -> list[Any]:
    """The ops; those of more than five operands, with their 63 subsets or more, are slow."""
    many = {op for op in ops() if len(differentiable_samples(op)[0].operands) > 5}
    return [pytest.param(op, marks=pytest.mark.slow) if op in many else op for op in ops()]


def subsets(wanted: list[bool]) -> Iterator[Flags]:
    """Every choice of at least one of the places that are true."""
    places = [i for i, one in enumerate(wanted) if one]
    for count in range(1, len(places) + 1):
        for chosen in combinations(places, count):
            yield tuple(i in chosen for i in range(len(wanted)))


def in_vain(op: Any, sample: Sample) -> list[str]:
    """What the rule reads for nothing, or reads where a tape does not keep it."""
    types = tuple(map(TensorType.of, sample.operands))
    attributes = op.canonical(sample.attributes)
    if isinstance(op, Region):
        attributes = op.recorded(types, attributes)
    results = op.infer(types, attributes)
    names = [
        *(f"result {i}" for i in range(len(results))),
        *(f"operand {i}" for i in range(len(types))),
    ]
    found = []
    for wanted in subsets([type.dtype.is_float for type in types]):
        of_operands, of_results = reads(op, types, results, attributes, wanted)
        keeps = list(zip(names, (*of_results, *of_operands), strict=True))
        needed = live_nodes(traced_rule(op, types, results, attributes, wanted))
        for present in subsets([type.dtype.is_float for type in results]):
            graph = traced_rule(op, types, results, attributes, wanted, present)
            read = {v.node for node in graph.nodes for v in node.operands}
            for node, (name, kept) in enumerate(keeps, len(results)):
                if kept != (node in needed) or (node in read and not kept):
                    found.append(f"{name}, for gradients of {wanted} from {present}")
    return found


@pytest.mark.parametrize("op", by_cost(), ids=lambda op: op.name)
def test_a_rule_reads_nothing_in_vain(op: Any) -> None:
    for sample in differentiable_samples(op):
        found = in_vain(op, sample)
        assert not found, f"the gradient rule of {op.name} reads what it does not need: {found[0]}"


def test_one_that_reads_in_vain_is_found() -> None:
    def rule(g: Any, out: Any, x: Any, y: Any) -> tuple[Any, Any]:
        product = g * x
        return lambda: g * y, lambda: product

    careless = Composite("careless", lambda x, y: x * y, vjp=rule, samples=None)
    unregister(careless.name)
    sample = Sample((np.ones(2), np.ones(2)))
    assert in_vain(careless, sample) == ["operand 0, for gradients of (True, False) from (True,)"]


def gradients(op: Any, sample: Sample, wanted: Flags) -> list[Any]:
    """Those of the wanted operands, by the rule run op by op on what the tape kept."""
    tensors = [frontend.from_numpy(x.copy()) for x in sample.operands]
    chosen = [x.requires_grad_() for x, wants in zip(tensors, wanted, strict=True) if wants]
    results = op(*tensors, **sample.attributes)
    results = results if isinstance(results, tuple) else (results,)
    floats = [x for x in results if x.requires_grad]
    weights = [frontend.full_like(x, 0.5 + i) for i, x in enumerate(floats)]
    return list(
        frontend.autograd.grad(floats, chosen, weights, create_graph=True, allow_unused=True)
    )


def of_several() -> list[Any]:
    """The ops that can have a gradient for one operand and not for another."""
    return [op for op in ops() if sum(_floats(differentiable_samples(op)[0])) > 1]


def _floats(sample: Sample) -> list[bool]:
    return [x.dtype.kind == "f" for x in sample.operands]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("op", of_several(), ids=lambda op: op.name)
def test_gradients_of_some_operands(op: Any) -> None:
    sample = differentiable_samples(op)[0]
    floats = _floats(sample)
    whole = iter(gradients(op, sample, tuple(floats)))
    expected = [next(whole) if one else None for one in floats]
    for wanted in subsets(floats):
        places = [i for i, wants in enumerate(wanted) if wants]
        for place, got in zip(places, gradients(op, sample, wanted), strict=True):
            want = expected[place]
            assert (got is None) == (want is None)
            if got is not None:
                np.testing.assert_array_equal(got.detach().numpy(), want.detach().numpy())

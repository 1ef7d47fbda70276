"""What frozen tensors alone decide in a compiled function: computed ahead, and kept.

in : the graph of a call, and which of its inputs are frozen tensors
out: the graph of what is left to a call, and its further inputs
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from frontend.compiled.options import Options
from frontend.compiled.sized_memo import executable_at, remembered_at
from frontend.tensors.tensor import Tensor
from graphc.ir.nodes import Graph
from graphc.ir.size_guards import SizeGuard


class FrozenParts:
    """`frozen`: which captured tensors are frozen; `ahead` computes from them what depends on them
    alone."""

    def __init__(self, frozen: Sequence[int], ahead: Any):
        self.frozen = list(frozen)
        self.ahead = ahead
        self.arrays: list[Any] = []  # those that `prepared` was computed from
        self.prepared: list[Any] = []

    def at(self, sizes: Mapping[str, int]) -> FrozenParts:
        """These parts at certain sizes: the same where no size matters."""
        ahead = executable_at(self.ahead, sizes)
        if ahead is self.ahead:
            return self
        parts = copy.copy(self)
        parts.ahead, parts.arrays, parts.prepared = ahead, [], []
        return parts

    def of(self, captured: Sequence[Any]) -> list[Any]:
        """What a call is given beside the arrays of the captured tensors: kept while the frozen
        ones are the same, which are read-only."""
        frozen = [captured[i] for i in self.frozen]
        if list(map(id, frozen)) != list(map(id, self.arrays)):
            prepared = list(self.ahead.run(list(frozen)))
            self.arrays, self.prepared = frozen, prepared
        return self.prepared


def split_off_frozen(
    graph: Graph, first: int, captured: Sequence[Tensor], options: Options,
    sizes: Mapping[str, int], compiled: Callable[[Graph, Mapping[str, int]], Any],
) -> tuple[Graph, FrozenParts | None, tuple[SizeGuard, ...]]:  # fmt: skip
    """The graph for a call, the captured tensors of which are inputs from `first` on; where some
    are frozen, what these alone decide; and the guards of the sizes it serves."""
    frozen = [i for i, tensor in enumerate(captured) if tensor._frozen is not None]
    if not frozen:
        return graph, None, ()
    level, target = options.level, options.target
    positions, last = tuple(first + i for i in frozen), first + len(captured)
    split, guards = remembered_at(
        sizes, "frozen", graph, (level, positions, last),
        lambda: _split(graph, level, positions, last, target), target,
    )  # fmt: skip
    if split is None:
        return graph, None, guards
    return split.graph, FrozenParts(frozen, compiled(split.constants, sizes)), guards


def _split(graph: Graph, level: str, frozen: Sequence[int], last: int, target: str | None) -> Any:
    from graphc.codegen.recipes.preferred_layouts import preferred_layouts
    from graphc.codegen.target import running
    from graphc.passes.pipelines import without_frozen

    return without_frozen(graph, level, frozen, last, preferred_layouts(running(target)))

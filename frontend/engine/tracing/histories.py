"""Tensors that were computed outside of a trace and require gradients: in it they are the ends of
the tape, and what `backward()` gives them there goes on, after each call, into the history they
have then.

in : what a trace asks of such tensors, and the gradients that reach them
out: what a call passes on, and the guards on it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from frontend.engine.eager.gradients.backward import behind
from frontend.engine.outside.check import Is, ValueCheck
from frontend.engine.outside.guard import Guard
from frontend.engine.outside.source import (
    ArgumentSource,
    InputSource,
    PartSource,
    TogetherSource,
)
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.current_trace import CurrentTrace
from graphc.errors import TraceError
from graphc.ir.builder import user_location
from graphc.ir.nodes import BACKWARD, Location


class Histories:
    """Of one trace; the `tensors.mode.Sweep` of each backward in it. `passed`: for each of these
    the tensors that were computed outside, their gradients, and whether the graph is retained."""

    def __init__(self, trace: CurrentTrace):
        self._trace = trace
        self.passed: list[tuple[list[tuple[Tensor, Tensor]], bool]] = []
        self._asked: dict[int, tuple[Tensor, bool]] = {}
        self._behind: set[int] = set()
        self._later: dict[int, Tensor] = {}  # whose `.grad` is looked at since

    def of(self, tensor: Any) -> Any:
        """The edge that a tensor has outside; None for a leaf, and what is made inside."""
        captured = self._trace.captured.get(id(tensor))
        if captured is None and not isinstance(tensor._value, np.ndarray):
            return None
        state = tensor._instance_state if captured is None else captured.state_outside
        edge = state.get("_edge")
        if state.get("_requires_grad"):
            self._asked[id(tensor)] = tensor, edge is None
        return edge

    def refuse(self, tensor: Any) -> None:
        """Raise TraceError where the history of a tensor is asked for that it has outside."""
        if self.of(tensor) is not None:
            raise TraceError(
                f"a tensor {tensor.tensor_type} that was computed outside and requires gradients "
                "is changed in place, or asked for its history, while tracing",
                hint="do it outside, or detach() it",
                location=user_location(),
            )

    # -- backward ----------------------------------------------------------------------------

    def reach(self, ends: Iterable[Tensor], targets: Iterable[Tensor], create_graph: bool) -> None:
        if self._trace.ended:
            return  # the sweep that derives a backward graph ends at the inputs of that
        ends = [tensor for tensor in ends if self.of(tensor) is not None]
        if not ends:
            return
        if create_graph:
            raise _unreachable("backward(create_graph=True) reaches")
        for tensor in ends:
            self._behind |= _behind(tensor, self.of(tensor))
        for tensor in targets:
            self.touch(tensor)

    def gradient_of(self, location: Location | None) -> AbstractContextManager[None]:
        return self._trace.builder.at(location and location.within(BACKWARD))

    def pass_on(self, gradients: list[tuple[Tensor, Tensor]], retain_graph: bool) -> None:
        if gradients:
            self.passed.append((gradients, retain_graph))

    def touch(self, tensor: Tensor) -> None:
        """The `.grad` of a tensor is looked at. Raises TraceError where it would come from outside,
        once the call is over."""
        if not self._behind:
            return
        if id(tensor) in self._behind:
            raise _unreachable("the gradient of a tensor comes, in part,")
        self._later[id(tensor)] = tensor

    # -- what a call does --------------------------------------------------------------------

    def guards(self) -> Iterator[Guard]:
        """Whether arguments are leaves, where that was asked, and what is behind those that are
        not."""
        source_of = self._trace.source_of
        for tensor, is_leaf in self._asked.values():
            # A leaf that is captured and requires gradients stays one.
            if not is_leaf or isinstance(source_of(tensor), ArgumentSource):
                yield leaf_guard(source_of(tensor), is_leaf)
        ends = [source_of(tensor) for gradients, _ in self.passed for tensor, _ in gradients]
        if ends and self._later:
            read = [source_of(tensor) for tensor in self._later.values()]
            yield Guard(TogetherSource([*ends, *read]), Unreached(len(ends)))


def _unreachable(what: str) -> TraceError:
    return TraceError(
        f"{what} from the history of a tensor that was computed outside of the traced function; "
        "what backward() does there is done when the call is over",
        hint="compute the tensor inside too, or call backward() outside",
        location=user_location(),
    )


def _behind(tensor: Any, edge: Any) -> set[int]:
    """The ids of the leaves behind an edge, and of its tensor where that keeps its gradient."""
    node, index = edge
    kept = {id(tensor)} if index in (node.retained or {}) else set()
    return kept | {id(x) for x in behind(node) if isinstance(x, Tensor)}


def _is_leaf(tensor: Tensor) -> bool:
    return bool(tensor.is_leaf)


def leaf_guard(source: InputSource, is_leaf: bool) -> Guard:
    """Whether a tensor is a leaf."""
    why = f"a tensor was {'a' if is_leaf else 'no'} leaf"
    return Guard(PartSource(source, _is_leaf), Is(is_leaf, why))


class Unreached(ValueCheck[tuple[object, ...]]):
    """Behind tensors that gradients are passed on to, the first ones, is none whose `.grad` the
    function looks at afterwards, the others."""

    __slots__ = ("count",)

    def __init__(self, count: int):
        self.count = count

    def holds(self, now: tuple[Any, ...]) -> bool:
        ends, read = now[: self.count], now[self.count :]
        ids = set().union(*[_behind(end, end._edge) for end in ends if end._edge is not None])
        return ids.isdisjoint(map(id, read))

    def reason(self, label: str, now: tuple[object, ...]) -> str:
        return "a gradient that is read comes from outside"


def refuse_sparse(grad: Tensor) -> None:
    """Raise TraceError for a gradient that compiled code does not take."""
    if grad.is_sparse:
        raise TraceError(
            "the .grad of a tensor is sparse: compiled code takes dense ones",
            hint="read it outside, or give the embedding sparse=False",
            location=user_location(),
        )

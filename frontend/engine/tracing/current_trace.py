"""What the parts of a session ask of the trace that they are parts of: what was captured, where ops
go, and to rely on something. `Session` is made of these parts, and so stands above them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from frontend.engine.outside.guard import Guard
from frontend.engine.outside.source import InputSource
from frontend.engine.sizes.open_sizes import SizedArguments
from frontend.engine.sizes.places import OpenPlaces
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.captured import Captured, GraphInput
from frontend.engine.tracing.regions import Builder
from graphc.ir.builder import Var
from graphc.ir.types import TensorType


class CurrentTrace(Protocol):
    """The trace under way, a `session.Session`, as its parts see it."""

    watched: list[Any] | None
    """Weak references to what is made while a hook runs; None while none does."""

    @property
    def builder(self) -> Builder:
        """Where ops go: the graph's, or that of a region under way."""

    @property
    def captured(self) -> Mapping[int, Captured]:
        """The tensors from outside, by id."""

    @property
    def places(self) -> OpenPlaces:
        """Where numbers stand that are left open."""

    @property
    def sizes(self) -> SizedArguments | None:
        """The arguments, where sizes are left open."""

    @property
    def ended(self) -> bool:
        """Whether it is resumed to derive its backward."""

    def emit(
        self, op: Any, operands: tuple[Tensor, ...], attributes: dict[str, Any],
        types: tuple[TensorType, ...],
    ) -> tuple[Tensor, ...]:  # fmt: skip
        """The results of `op`: as `tensors.mode.Mode`, and so are `value`, `guard`, `follow`."""

    def value(self, tensor: Tensor) -> Var:
        """The graph variable of a tensor."""

    def add_input(self, name: str, source: InputSource, tensor: Tensor) -> GraphInput:
        """A further input, which a call reads from there."""

    def source_of(self, tensor: Tensor) -> InputSource:
        """Where a tensor from outside comes from at each call."""

    def holding_tensors(self) -> list[Any]:
        """What of the trace holds tensors."""

    def guard(self, key: Any, make: Callable[[], Guard], kept: Sequence[Any] = ()) -> Guard:
        """The guard of that key: `make()`, once."""

    def follow(self, value: Any) -> None:
        """Rely on what the code of a hook or Module reads by name, and on attributes."""

    def refuse_in_region(self, what: str) -> None:
        """Raise TraceError in the body of a loop or branch: it may run any number of times."""

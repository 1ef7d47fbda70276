"""What runs between two native parts of a compiled function: exchanges with other processes.

The function is traced as a whole; where an exchange stands the graph has a node `exchange`, and is
cut there (`graphc.passes.split_exchanges`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.current_trace import CurrentTrace
from graphc.ops.exchange import exchange

T = TypeVar("T")


class Exchange(Protocol):
    """One exchange of a traced function, as its calls make it."""

    name: str
    """What is exchanged, for `explain()` and the ledger."""

    def begin(self, reads_grads: bool) -> Sequence[np.ndarray]:
        """Before the first part of a call runs: the arrays that native code is to write the
        operands to. With `reads_grads` these must not be memory of gradients from before. Raises
        where the call cannot be made; then nothing has run."""

    def run(self, operands: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """The results, for the arrays that `begin` gave, filled in."""


class Exchanges:
    """Those of the trace under way, and what their owners keep for as long as it lasts."""

    def __init__(self, trace: CurrentTrace):
        self._trace = trace
        self.listed: list[Exchange] = []
        self.exact = ""  # what promises bits that level "relaxed" does not keep
        self.whole = ""  # what is not to be differentiated from outside
        self._kept: dict[object, object] = {}
        self._checks: list[Callable[[], None]] = []

    def add(self, what: Exchange, operands: Sequence[Tensor], rows: int = 0) -> tuple[Tensor, ...]:
        """The results of an exchange: of the types of its operands, or `rows` of each in an axis of
        their own."""
        self._trace.refuse_in_region("an exchange between processes")
        attributes = {"number": len(self.listed), "rows": rows}
        self.listed.append(what)
        types = exchange.infer(tuple([x.tensor_type for x in operands]), attributes)
        return self._trace.emit(exchange, tuple(operands), attributes, types)

    def kept(self, owner: object, make: Callable[[], T], check: Callable[[T], None]) -> T:
        """What an owner keeps in this trace: made once, checked when the function has run."""
        known = self._kept.get(owner)
        if known is None:
            known = self._kept[owner] = value = make()
            self._checks.append(lambda: check(value))
        return known  # type: ignore[return-value]

    def check_ended(self) -> None:
        """Raise what owners raise where the function left something undone."""
        for check in self._checks:
            check()

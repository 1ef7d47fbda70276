"""The free numbers of a program: those among the arguments that its graph depends on only
by what Python computes of them for each call (tracing.call_numbers).

in : what was left open in a trace, and what came of it
out: for the signature of a call the numbers that native code gets, or that it is not served
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from frontend.engine.compiled.signature import Signature
from frontend.engine.outside.check import SameNumber
from frontend.engine.outside.guard import Guard
from frontend.engine.sizes.open_sizes import SizedArguments, fits
from frontend.engine.tensors import tree
from frontend.engine.tensors.symbolic_numbers import names_of
from frontend.engine.tracing.call_numbers import CallValues
from graphc.ir.nodes import Graph
from graphc.ir.size_floats import names_in, value_at
from graphc.ir.symbols import symbols_of


class FreeNumbers:
    """Of one program. `places`: of those among the ints and floats of a call. There are none
    where a graph is differentiated, as its derivative may come to depend on what it does not."""

    def __init__(
        self, sizes: SizedArguments | None, graph: Graph | None, structures: Iterable[Any]
    ):
        self.sizes = sizes
        self.names: frozenset[str] = frozenset()
        if sizes is not None and graph is not None:
            taken = {symbol.name for symbol in symbols_of(graph)}
            for structure in structures:
                taken |= {name for part in tree.parts(structure) for name in names_of(part)}
            self.names = sizes.names_of_numbers - taken
        numbers = enumerate(() if sizes is None else sizes.numbers)
        self._open = [(i, part) for i, part in numbers if names_in(part) & self.names]
        self.places = frozenset([i for i, _ in self._open])
        outside = () if sizes is None else sizes.places
        self._read = [(place, part) for place, part in outside if names_in(part) & self.names]
        # Whether some stand outside of the function, and are read at each call.
        self.are_read = bool(self._read)
        self._needed = [(place, part) for place, part in outside if not names_in(part) & self.names]

    def guards(self, sizes: Mapping[str, Any]) -> list[Guard]:
        """Of an instance at these sizes: numbers outside that are part of it."""
        return [Guard(place, SameNumber(value_at(part, sizes))) for place, part in self._needed]

    def values(self, key: Signature, instance: Any) -> CallValues | None:
        """What Python computes for a call of this signature, of which an instance of the program
        has the sizes; None where what was asked of free numbers has other answers
        there, or Python raises an error."""
        numbers, sizes = tree.numbers(key.structure), instance.sizes
        known = {name: size for name, size in sizes.items() if name not in self.names}
        if not all([fits(part, numbers[i], known) for i, part in self._open]):
            return None
        if not all([fits(part, place.read(), known) for place, part in self._read]):
            return None
        if not all([guard.holds(known) for guard in instance.program.size_guards]):
            return None
        computed: CallValues | None = instance.program.numbers.values(known)
        return computed

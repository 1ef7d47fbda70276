"""What a compiled function relies on besides the signature of a call: guards.

A `Guard` is a source and a check: where a value lives, and what must hold of it there. A guard for
a new kind of outside value takes a new source, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, final

from frontend.engine.outside.check import Flags, ModuleMembers, Same, Types, ValueCheck, same
from frontend.engine.outside.constants import Constants
from frontend.engine.outside.source import (
    Call,
    LookupSource,
    ModuleSource,
    PlaceSource,
    Source,
    TensorsSource,
)
from frontend.engine.tensors.tensor import Tensor

T = TypeVar("T")


@final
class Guard:
    """`holds(call)` says whether what a trace relied on is so at a call, `reason(call)` what is
    otherwise. `str()` is what the trace froze, as `explain()` lists it; "" for nothing to tell."""

    __slots__ = ("check", "source")

    def __init__(self, source: Source[T], check: ValueCheck[T]):
        self.source: Source[object] = source
        self.check: ValueCheck[Any] = check

    def holds(self, call: Call = ()) -> bool:
        return self.check.holds(self.source.read(call))

    def reason(self, call: Call = ()) -> str:
        return self.check.reason(self.source.label, self.source.read(call))

    def numbers(self) -> Iterable[tuple[PlaceSource, object]]:
        """Places of what was read, where numbers may stand, and what that was."""
        return self.check.numbers(self.source)

    def renew(self) -> None:
        """Rely on what stands there now: a trace has made it itself."""
        self.check = self.check.renewed(self.source.read(()))

    def code(self, constants: Constants) -> str:
        """An expression for `holds(call)`."""
        return self.check.code(self.source.code(constants), constants)

    def __str__(self) -> str:
        return self.check.text(self.source.label)


def module_guard(module: object, assigned: Iterable[str] = ()) -> Guard:
    """On the attributes of a Module, but for those that the function assigns itself."""
    source = ModuleSource(module)
    return Guard(source, ModuleMembers(source.read(()), set(assigned)))


def tensors_guard(tensors: Sequence[Tensor], names: Sequence[str] = ()) -> Guard:
    """On what captured tensors are, but for their values."""
    return Guard(TensorsSource(tensors), Flags(tensors, names))


def types_guard(tensors: Sequence[Tensor]) -> Guard:
    """On the types of tensors that the function can reach."""
    return Guard(TensorsSource(tensors), Types(tensors))


def lines_of(guards: Iterable[Guard], constants: Constants) -> list[str]:
    """Code that returns False where one of the guards does not hold, in their order. What was read
    by name, of which there may be much, is gone through in a loop, without a call of Python's."""
    lines: list[str] = []
    table: list[tuple[object, object, object]] = []
    for guard in guards:
        source, check = guard.source, guard.check
        if isinstance(source, LookupSource) and isinstance(check, Same):
            if not table:
                lines += _loop(constants.of(table), constants.of(same))
            table.append((source.getter, source.key, check.then))
        else:
            table = []
            lines += [f"if not {guard.code(constants)}:", "    return False"]
    return lines


def _loop(table: str, same: str) -> list[str]:
    return [
        "try:",
        f"    for getter, key, then in {table}:",
        f"        if getter(key) is not then and not {same}(getter(key), then):",
        "            return False",
        "except (ValueError, AttributeError):",  # a cell that was emptied, a slot that was deleted
        "    return False",
    ]

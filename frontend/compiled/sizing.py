"""Specializations for any size: which sizes of a function's arguments, and which ints among them,
are left open, and the specialization of a call among those that were traced so.

A first signature has the sizes and ints it came with. When a further one differs in these alone,
those that differ are left open (graphc.ir.dims), and the specialization traced then serves all
others that give the same answers to what the trace asked of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontend.compiled.signature import Signature
from frontend.compiled.specialization import Specialization
from frontend.tracing import tree
from frontend.tracing.size_rules import Rules
from frontend.tracing.sizes import SizedArguments, SizeHistory

MOST = 8
"""Specializations of open sizes kept for signatures of one form: the latest."""


class OpenSizes:
    """Of one compiled function. `dynamic`: None to leave open what was seen to differ, True all
    sizes from the start, False none; names of sizes leave these open from the start."""

    def __init__(self, dynamic: Any):
        self.dynamic = dynamic
        self._histories: dict[Signature, SizeHistory] = {}
        self._specializations: dict[Signature, list[Specialization]] = {}
        self._refused: set[Signature] = set()

    def sized(self, key: Signature, rules: Rules) -> SizedArguments | None:
        """The arguments of a new signature with the sizes that are left open, also by what users
        say of them; None without any."""
        if self.dynamic is False or form_of(key) in self._refused:
            return None
        numbers = tree.numbers(key.structure)
        return self._history(key).sized(key.types, numbers, self.dynamic is True, rules)

    def note(self, key: Signature) -> None:
        """The function can be called with these types."""
        if self.dynamic is not False:
            self._history(key).note(key.types, tree.numbers(key.structure))

    def _history(self, key: Signature) -> SizeHistory:
        return self._histories.setdefault(form_of(key), SizeHistory())

    def add(self, key: Signature, specialization: Specialization) -> None:
        """A specialization was traced with sizes left open."""
        form = form_of(key)
        known = self._specializations.get(form, [])
        self._specializations[form] = [specialization, *known][:MOST]
        assert specialization.sizes is not None
        self._history(key).traced(specialization.sizes, specialization.size_guards)

    def refuse(self, key: Signature) -> None:
        """Signatures of this form cannot be traced with sizes left open: do not try again."""
        self._refused.add(form_of(key))

    def forget(self, key: Signature, number: int) -> None:
        """The specialization of this trace is not to be used again."""
        form = form_of(key)
        known = self._specializations.get(form, [])
        self._specializations[form] = [each for each in known if each.number != number]

    def all(self) -> list[Specialization]:
        """The specializations that serve several sizes."""
        return [each for known in self._specializations.values() for each in known]

    def broken(self, key: Signature) -> list[str]:
        """What of the sizes of a signature keeps the specializations there are from serving it."""
        known = self._specializations.get(form_of(key), ())
        return list(dict.fromkeys(text for each in known for text in _broken(each, key)))

    def fitting(self, key: Signature, holds: Callable[[Any], bool]) -> Specialization | None:
        """The instance for a signature, of a specialization that serves it."""
        for specialization in self._specializations.get(form_of(key), ()):
            instance = specialization.at(key)
            if instance is not None and holds(instance):
                return instance
        return None


def _broken(specialization: Specialization, key: Signature) -> list[str]:
    """What has to hold of sizes there, and does not hold for a call of this signature."""
    assert specialization.sizes is not None
    sizes = specialization.sizes.sizes_of(key.types, tree.numbers(key.structure))
    guards = [] if sizes is None else specialization.size_guards
    return [f"not {guard}" for guard in guards if not guard.holds(sizes or {})]


def form_of(key: Signature) -> Signature:
    """The signature without its sizes and ints."""
    return key._replace(
        structure=tree.mapped(key.structure, _erased),
        types=tuple([(type.dtype, type.rank) for type in key.types]),
    )


def _erased(part: Any) -> Any:
    return part[:2] if part[1] is int else part

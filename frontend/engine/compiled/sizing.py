"""Programs for any size: which sizes of a function's arguments, and which numbers among
them, are left open, and the instance of a call among those of programs that were traced so.

A first signature has the sizes and numbers it came with. When a further one differs in these alone,
those that differ are left open (graphc.ir.dims, size_floats), and the program traced then serves
all others that give the same answers to what the trace asked of them.

A number that the graph does not depend on, since Python computes what is made of it
(tracing.call_numbers), is *free*: it takes no part in the signature that an instance is found by,
so that a further one costs nothing but that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from frontend.engine.compiled.free_numbers import FreeNumbers
from frontend.engine.compiled.program import TracedProgram
from frontend.engine.compiled.signature import Signature
from frontend.engine.compiled.specialization import Specialization, specialization_at
from frontend.engine.outside.check import same, value_text
from frontend.engine.sizes.open_sizes import OutsideNumber, SizedArguments, SizeHistory, can_be_open
from frontend.engine.sizes.places import changed_numbers
from frontend.engine.sizes.size_rules import Rules
from frontend.engine.tensors import tree
from frontend.engine.tracing.assigned import Assigned
from graphc.errors import TraceError
from graphc.ir.size_floats import names_in, text_of

MOST = 8
"""Programs of open sizes kept for signatures of one form: the latest."""
MOST_PLACES = 64
"""Numbers outside of a function that are left open: each is read at every call."""
MOST_ASSIGNED = 1024
"""Those among them that the function assigns itself: the counter of each parameter."""
MOST_VALUES = 4
"""Values of what a function assigns, of which each has a program of its own."""
MOST_ASKED = 8
"""Values of a number that a function assigns and leaves open, for which it has a program of its own
(`if self.t == 1000`)."""
AT_ONE_SIGNATURE = 4
"""Instances of one program that a signature has, which differ in numbers outside alone: each
is asked whether it holds."""


class OpenSizes:
    """Of one compiled function. `dynamic`: None to leave open what was seen to differ, True all
    sizes from the start, False none; names of sizes leave these open from the start."""

    def __init__(self, dynamic: Any):
        self.dynamic = dynamic
        self._histories: dict[Signature, SizeHistory] = {}
        self._programs: dict[Signature, list[TracedProgram]] = {}
        self._refused: set[Signature] = set()
        self._places: dict[Any, OutsideNumber] = {}  # numbers that are left open, by identity
        self._closed: dict[Any, OutsideNumber] = {}  # those that are not to be
        self._values: dict[Any, set[str]] = {}  # by what is assigned: those it had in programs
        self._free: dict[Any, list[frozenset[int]]] = {}  # by structure without its numbers

    def sized(self, key: Signature, rules: Rules) -> SizedArguments | None:
        """The arguments of a new signature with the sizes that are left open, also by what users
        say of them; None without any."""
        if self.dynamic is False or form_of(key) in self._refused:
            return None
        numbers = tree.numbers(key.structure)
        places = self._places.values()
        return self._history(key).sized(key.types, numbers, self.dynamic is True, rules, places)

    def look_outside(
        self, key: Signature, known: Mapping[Signature, Sequence[Specialization]]
    ) -> None:
        """Numbers outside of the function that changed since it was traced for this signature are
        left open, but for those that are known to be needed as they are."""
        if self.dynamic is False:
            return
        for each in (key, *self.without_free(key)):
            for instance in known.get(each, ()):
                changed = {place.identity: place for place in changed_numbers(instance.guards)}
                for identity, place in changed.items():
                    is_new = identity not in self._closed and identity not in self._places
                    if is_new and len(self._places) < MOST_PLACES:
                        self._places[identity] = OutsideNumber(place)

    def open_assigned(self, assigned: Sequence[Assigned]) -> bool:
        """Of what a trace assigns numbers are left open, 0 too: whether there are more of these
        than were. Raises TraceError for what each call would need a program of its own for."""
        more = False
        for each in assigned:
            identity = each.place.identity
            if self._can_be_open(each):
                name = each.place.key if isinstance(each.place.key, str) else identity
                group = (name, value_text(each.before), value_text(each.value))
                self._places[identity] = OutsideNumber(each.place, 0, group)
                more = True
        for each in () if more else assigned:
            values = self._values.setdefault(each.place.identity, set())
            values.add(value_text(each.before))
            if len(values) > MOST_VALUES:
                raise TraceError(
                    f"{each.place.label} is assigned while tracing, and there is code for each of "
                    f"its values: it was {', '.join(sorted(values))}",
                    hint="count outside; or use it so that it stays open (docs/sizes.md, numbers)",
                )
        return more

    def _can_be_open(self, assigned: Assigned) -> bool:
        place, before, value = assigned
        known = self._places.get(place.identity)
        if self.dynamic is False or place.identity in self._closed:
            return False
        if known is None and len(self._places) >= MOST_ASSIGNED:
            return False
        least = 0 if known is None else known.least
        opens = known is None or (known.group is None and known.least > 0)
        alike = isinstance(value, float if isinstance(before, float) else int)
        return opens and alike and not isinstance(value, bool) and can_be_open(before, least)

    def note(self, key: Signature) -> None:
        """The function can be called with these types."""
        if self.dynamic is not False:
            self._history(key).note(key.types, tree.numbers(key.structure))

    def _history(self, key: Signature) -> SizeHistory:
        return self._histories.setdefault(form_of(key), SizeHistory())

    def add(self, key: Signature, program: TracedProgram) -> None:
        """A program was traced with sizes left open."""
        form = form_of(key)
        known = self._programs.get(form, [])
        self._programs[form] = [program, *known][:MOST]
        sizes = program.sizes
        assert sizes is not None
        needed = self._history(key).traced(sizes, program.size_guards)
        for place, part in sizes.places:
            open_ = self._places.get(place.identity)
            if open_ is None or needed.isdisjoint(names_in(part)):
                continue
            if open_.group is not None and not self._is_number(open_, program, part):
                continue
            self._closed[place.identity] = self._places.pop(place.identity)

    def _is_number(self, known: OutsideNumber, program: TracedProgram, part: Any) -> bool:
        """Whether a number that the function assigns is needed as it is, or is asked about so often
        that it might be."""
        assert program.sizes is not None and program.answers is not None
        names, fixed = names_in(part), program.answers.fixed
        if any(
            text_of(each.left) in fixed and names & each.decides for each in program.size_guards
        ):
            return True
        asked = self._values.setdefault((*known.place.identity, "asked"), set())
        asked.add(value_text(known.place.read()))
        return len(asked) > MOST_ASKED

    def found_without(self, key: Signature, numbers: FreeNumbers) -> Signature:
        """The signature without its free numbers, by which the instance is found from now on."""
        free = numbers.places
        if not free and not numbers.are_read:
            return key
        known = self._free.setdefault(tree.mapped(key.structure, _erased), [])
        if free not in known:
            known.append(free)
        return _without(key, free)

    def without_free(self, key: Signature) -> Iterator[Signature]:
        """The signature without numbers that are free in programs of its structure."""
        if self._free:
            for free in self._free.get(tree.mapped(key.structure, _erased), ()):
                yield _without(key, free)

    def refuse(self, key: Signature) -> None:
        """Signatures of this form cannot be traced with sizes left open: do not try again. Where
        numbers outside were, it may be for these."""
        zeros = [n for n in self._places.values() if n.least == 0 and same(n.place.read(), 0)]
        if zeros:  # they may be left open from 1 on
            self._places |= {n.place.identity: n._replace(least=1) for n in zeros}
            return
        if not self._places:
            self._refused.add(form_of(key))
        self._closed |= self._places
        self._places = {}

    def forget(self, key: Signature, program: TracedProgram) -> None:
        """The program is not to be used again."""
        form = form_of(key)
        known = self._programs.get(form, [])
        self._programs[form] = [each for each in known if each is not program]

    def all(self) -> list[TracedProgram]:
        """The programs that serve several sizes."""
        return [each for known in self._programs.values() for each in known]

    def broken(self, key: Signature) -> list[str]:
        """What of the sizes of a signature keeps the programs there are from serving it."""
        known = self._programs.get(form_of(key), ())
        return list(dict.fromkeys(text for each in known for text in _broken(each, key)))

    def fitting(self, key: Signature, holds: Callable[[Any], bool]) -> Specialization | None:
        """The instance for a signature, of a program that serves it."""
        for program in self._programs.get(form_of(key), ()):
            instance = specialization_at(program, key)
            if instance is not None and holds(instance):
                return instance
        return None


def _broken(program: TracedProgram, key: Signature) -> list[str]:
    """What has to hold of sizes there, and does not hold for a call of this signature."""
    assert program.sizes is not None
    sizes = program.sizes.sizes_of(key.types, tree.numbers(key.structure))
    guards = () if sizes is None else program.size_guards
    return [f"not {guard}" for guard in guards if not guard.holds(sizes or {})]


def latest(instance: Specialization, known: Sequence[Specialization]) -> list[Specialization]:
    """What a signature has once it has a further one: of the instances of its program the
    latest."""
    alike = [
        each
        for each in known
        if each.program.sizes is not None and each.program is instance.program
    ]
    older = set(map(id, alike[AT_ONE_SIGNATURE - 1 :]))
    return [instance, *[each for each in known if id(each) not in older]]


def form_of(key: Signature) -> Signature:
    """The signature without its sizes and numbers."""
    return key._replace(
        structure=tree.mapped(key.structure, _erased),
        types=tuple([(type.dtype, type.rank) for type in key.types]),
    )


def _erased(part: Any) -> Any:
    return part[:2] if part[1] in tree.NUMBERS else part


_FREE = object()


def _without(key: Signature, free: frozenset[int]) -> Signature:
    """The signature where any number stands at these places among its ints and floats."""
    places = itertools.count()

    def change(part: Any) -> Any:
        kind = part[1]
        if kind not in tree.NUMBERS or next(places) not in free:
            return part
        return ("static", kind, tree.Keyed(part[2] if kind is int else part[2].value, _FREE))

    return key._replace(structure=tree.mapped(key.structure, change))

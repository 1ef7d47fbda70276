"""The specializations of a compiled function, and how a call finds the one that serves it.

in : the signature of a call and its tensors
out: a specialization whose check holds, with what Python computes for the call; or none

Finding takes no lock: what is added or dropped meanwhile is so in a new list. Adding and dropping
are done by who holds `TRACE_LOCK.specializing`.
"""

from __future__ import annotations

from collections.abc import Sequence

from frontend.engine.compiled.deciders import HOLDING, Decider
from frontend.engine.compiled.inline_cache import InlineCache
from frontend.engine.compiled.signature import Signature
from frontend.engine.compiled.sizing import OpenSizes, latest
from frontend.engine.compiled.specialization import Specialization
from frontend.engine.compiled.trace_history import MOST_INSTANCES, MOST_SPECIALIZATIONS
from frontend.engine.tensors.epoch import TRACE_LOCK
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.call_numbers import CallValues

Serving = tuple[Specialization, CallValues | None]
"""What serves a call, and what Python computed for it; None for what it did for all of this
signature."""


class Specializations:
    """Of one compiled function."""

    def __init__(self, open_sizes: OpenSizes):
        self.cache: InlineCache | None = None
        self.by_signature: dict[Signature, list[Specialization]] = {}
        self.open_sizes = open_sizes
        self._last_free: tuple[Signature, Serving] | None = None

    @property
    def all(self) -> list[Specialization]:
        """One for each signature that was called, and for each way that its guards held."""
        return [each for known in list(self.by_signature.values()) for each in known]

    # -- finding -----------------------------------------------------------------------------

    def find(self, key: Signature, leaves: Sequence[Tensor]) -> Serving | None:
        """What serves a call that is not like the last one, without a lock; None where something
        has to be made."""
        self.cache = None
        for decider in FINDING[1:-1]:
            serving = decider.ask(self, key, leaves)
            if serving is not None:
                return serving
        return None

    def at_signature(self, key: Signature, leaves: Sequence[Tensor]) -> Serving | None:
        """One of this signature."""
        for one in self.by_signature.get(key, ()):
            if not one.program.free.are_read and one.check(one, leaves):
                self._used(key)
                return one, None
        return None

    def at_last_free(self, key: Signature, leaves: Sequence[Tensor]) -> Serving | None:
        """The last that took numbers as they came, for the same ones."""
        last = self._last_free
        if last is not None and last[0] == key:
            one, _ = serving = last[1]
            if one.check(one, leaves):
                return serving
        return None

    def at_free_numbers(self, key: Signature, leaves: Sequence[Tensor]) -> Serving | None:
        """One that takes numbers as they come."""
        for known in self.open_sizes.without_free(key):
            for one in self.by_signature.get(known, ()):
                numbers = one.program.free.values(key, one)
                if numbers is not None and one.check(one, leaves):
                    self._used(known)
                    serving = one, numbers
                    if not one.program.free.are_read:
                        self._last_free = key, serving
                    return serving
        return None

    def at_sizes(self, key: Signature, leaves: Sequence[Tensor]) -> Serving | None:
        """A new one, at the sizes of the call, of a program that serves them."""
        one = self.open_sizes.fitting(key, lambda one: one.check(one, leaves))
        return None if one is None else (one, None)

    def _used(self, key: Signature) -> None:
        """`key` was used last: dicts keep an order. No call waits for another's compiling."""
        if next(reversed(self.by_signature), None) == key:
            return
        if TRACE_LOCK.specializing.acquire(blocking=False):
            try:
                known = self.by_signature.pop(key, None)
                if known is not None:
                    self.by_signature[key] = known
            finally:
                TRACE_LOCK.specializing.release()

    # -- adding and dropping -----------------------------------------------------------------

    def add(self, key: Signature, one: Specialization) -> Specialization:
        """Found from now on by this signature, the first among those it has."""
        self.open_sizes.note(key)
        key = self.open_sizes.found_without(key, one.program.free)
        known = self.by_signature.pop(key, [])
        self._drop_unused(one)
        self.by_signature[key] = latest(one, known)[:MOST_SPECIALIZATIONS]
        one.signature = key
        return one

    def forget(self, one: Specialization) -> None:
        """It is not to be used again."""
        with TRACE_LOCK.specializing:
            self.cache = self._last_free = None
            key = one.signature
            known = self.by_signature.get(key, [])
            self.by_signature[key] = [each for each in known if each is not one]
            self.open_sizes.forget(key, one.program)

    def _drop_unused(self, one: Specialization) -> None:
        """Make room for a specialization: of those of its sort (of a program for one signature
        alone, or for several) the one of the signature used longest ago goes."""
        is_instance = one.program.sizes is not None
        most = MOST_INSTANCES if is_instance else MOST_SPECIALIZATIONS
        if sum(map(len, self.by_signature.values())) < most:
            return
        same = [
            (key, each)
            for key, known in self.by_signature.items()
            for each in reversed(known)
            if (each.program.sizes is not None) is is_instance
        ]
        for key, dropped in same[: max(len(same) + 1 - most, 0)]:
            left = [each for each in self.by_signature[key] if each is not dropped]
            if left:
                self.by_signature[key] = left
            else:
                del self.by_signature[key]


FINDING = (
    Decider("inline cache", InlineCache.fits, "under 1 us",
            "the state of the thread; class, type and flag of each argument; that they are "
            "distinct: as at the last call"),
    Decider("signature", Specializations.at_signature, "5 to 10 us",
            "the same, with structure, numbers, and which arguments are one tensor, as a key"),
    Decider("last free numbers", Specializations.at_last_free, "5 to 10 us",
            "the same, of the last call for which Python computed numbers anew"),
    Decider("free numbers", Specializations.at_free_numbers, "10 to 30 us",
            "the signature without the numbers that Python computes anew, and these"),
    Decider("size guards", Specializations.at_sizes, "0.3 ms, a specialization is made",
            "what was asked of sizes in the trace has the same answers"),
)  # fmt: skip
"""What gives a specialization, the first that does counting. Between the last two the lock is
taken; behind them a function is traced."""
DECIDERS = (*FINDING, *HOLDING)

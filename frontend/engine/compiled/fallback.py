"""What cannot be traced runs eagerly, and Modules called below it are compiled each for itself.

in : the refusal of a trace, and what the trace had looked at until then
out: calls that run as eager code does, for as long as what it looked at is so; one warning, and
     lines for `explain()`
"""

from __future__ import annotations

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from frontend.engine.compiled.call_guards import call_guards
from frontend.engine.compiled.deciders import check_of
from frontend.engine.compiled.inputs import in_order
from frontend.engine.compiled.signature import Signature
from frontend.engine.compiled.sizing import form_of
from frontend.engine.outside.guard import Guard, tensors_guard, types_guard
from frontend.engine.outside.items import FirstCallError
from frontend.engine.outside.kinds import is_nn_module, runs_eagerly
from frontend.engine.outside.source import CapturedSource
from frontend.engine.tensors.state import STATE, modules_going_to
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.layouts import root_of
from graphc.errors import GraphError, TraceError
from graphc.ir.builder import line_of
from graphc.records import replace

if TYPE_CHECKING:
    from frontend.engine.compiled.options import Options
    from frontend.engine.tracing.session import Session
    from frontend.engine.tracing.tracer import Trace

MOST_REFUSALS = 8
"""Refusals that are kept. A function that came to so many more than it has programs is not traced
again where none of them holds: each costs a trace."""
MOST_BELOW = 512
"""Modules below a function that are compiled."""


def note_guards(error: BaseException, guards: Sequence[Guard]) -> None:
    """Note on a refusal that comes after its trace what that relied on."""
    error.guards = guards  # type: ignore[attr-defined]


class Refusal:
    """Why a call could not be traced, and what that rests on."""

    def __init__(self, key: Signature, error: GraphError, guards: Sequence[Guard]):
        self.key: Signature | None = key  # None: any sizes and numbers
        self.form = form_of(key)
        self.message, self.hint = error.message, error.hint
        self.line = error.location or line_of(error)
        self.guards = list(guards)
        self.check: Callable[..., bool] | None = None
        self.epoch: object = None
        self.may_be_once = False  # of first calls (state, a file, a warning): traced once more
        self.calls = 0
        self.seconds = 0.0

    def bind(self) -> None:
        """Nothing is looked up: eager code does."""

    @property
    def text(self) -> str:
        """What was refused, and where."""
        return self.message if self.line is None else f"{self.message}\n  at: {self.line}"

    def serves(self, key: Signature, leaves: Sequence[Tensor]) -> bool:
        """Whether a call would be refused again, as far as is known."""
        if (self.form != form_of(key)) if self.key is None else (self.key != key):
            return False
        return not self.may_be_once and self.check is not None and self.check(self, leaves)

    def settle(self, leaves: Sequence[Tensor]) -> None:
        """After a call: what the function changes itself is no reason to trace it again."""
        self.guards = [guard for guard in self.guards if _still_holds(guard, leaves)]
        self.check = check_of(self.guards, ())
        self.epoch = None


class Fallback:
    """Of one compiled function: its refusals, and the Modules below it."""

    def __init__(self, name: str, options: Options, make: Callable[[Any, Options], Any]):
        """`make(module, options)` gives the compiled function of a Module."""
        self.name = name
        self._options = options
        self.refusals: list[Refusal] = []
        self._tries = 0
        self._last: Refusal | None = None
        self._below = ModulesBelow(options, make)

    def find(self, key: Signature, leaves: Sequence[Tensor], programs: int) -> Refusal | None:
        """The refusal that a call comes to; None where it may be traced. `programs`: how many the
        function has."""
        for refusal in self.refusals:
            if refusal.serves(key, leaves):
                return refusal
        return self._last if self._tries >= MOST_REFUSALS + programs else None

    def add(self, key: Signature, error: GraphError) -> Refusal:
        """That of a call of this signature, which a trace raised."""
        guards: Sequence[Guard] = getattr(error, "guards", ())
        session: Session | None = getattr(error, "session", None)
        if session is not None:
            guards = _relied_on(session)
            self._below.reached(session.captured_globals.modules)
        new = Refusal(key, error, guards)
        alike = [each for each in self.refusals if each.form == new.form and each.text == new.text]
        new.may_be_once = not alike and isinstance(error, FirstCallError)
        if any(old.key != key for old in alike):
            new.key = None  # whatever the sizes and numbers are
        kept = [old for old in self.refusals if not (old.may_be_once and old in alike)]
        self.refusals = [new, *kept][:MOST_REFUSALS]
        self._tries += 1
        first, self._last = self._last is None, new
        if first and not self._options.apart:  # else the function around it tells
            self._warn(new)
        return new

    def _warn(self, refusal: Refusal) -> None:
        hint = f"\n  try: {refusal.hint}" if refusal.hint else ""
        warnings.warn(
            f"compiled {self.name} runs eagerly, since it cannot be traced: {refusal.text}{hint}\n"
            "  (compile(..., fullgraph=True) raises instead; explain() tells what is compiled)",
            stacklevel=4,
        )

    def run(
        self, refusal: Refusal, function: Callable[..., Any], arguments: Any, keywords: Any,
        leaves: Sequence[Tensor],
    ) -> Any:  # fmt: skip
        """What the function gives in eager mode. An error is that of eager mode, and so is the
        state it leaves."""
        started = time.perf_counter()
        refusal.calls += 1
        try:
            # Of functions that run so within each other, to those of the outermost.
            with modules_going_to(STATE.below or self._below):
                return _eager(function)(*arguments, **keywords)
        finally:
            refusal.seconds += time.perf_counter() - started
            if refusal.check is None:
                refusal.settle(leaves)

    def lines(self) -> Iterator[str]:
        """What runs eagerly and why, and what is compiled below it, with the time of both."""
        for text in dict.fromkeys(refusal.text for refusal in self.refusals):
            alike = [refusal for refusal in self.refusals if refusal.text == text]
            count, seconds = sum(r.calls for r in alike), sum(r.seconds for r in alike)
            calls = f"{count} call{'' if count == 1 else 's'}, {seconds:.3f} s"
            yield f"runs eagerly: {calls}: {_in_a_row(text)}"
        if self.refusals:
            yield from self._below.lines()


class ModulesBelow:
    """The Modules that run below a function which runs eagerly: the outermost that can be traced
    are compiled. One that the function does not name is, once it is called again: what it makes
    anew at each call is not."""

    def __init__(self, options: Options, make: Callable[[Any, Options], Any]):
        self._make = make
        self._options = replace(options, fullgraph=False, keep_grads=True, apart=True)
        self._met: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._compiled: dict[int, tuple[Any, Any]] = {}  # a Module, and what is compiled of it
        self._seconds: defaultdict[int, float] = defaultdict(float)

    def reached(self, modules: Sequence[Any]) -> None:
        """A function names these."""
        self._met.update({id(module): module for module in modules})

    def call(self, module: Any, arguments: Any, keywords: Any) -> Any:
        """What `module(*arguments, **keywords)` gives."""
        number = id(module)
        owner, compiled = self._compiled.get(number, (None, None))
        if owner is not module:
            compiled = self._compile(module)
            if compiled is None:
                return module._call_impl(*arguments, **keywords)
        started = time.perf_counter()
        result = compiled(*arguments, **keywords)
        self._seconds[number] += time.perf_counter() - started
        return result

    def _compile(self, module: Any) -> Any:
        if self._met.get(id(module)) is not module:
            self._met[id(module)] = module
            return None
        if len(self._compiled) >= MOST_BELOW or runs_eagerly(module):
            return None
        runs: Any = module
        if not _is_called_plainly(module):
            runs = runs._call_impl
        compiled = self._make(runs, self._options)
        self._compiled[id(module)] = module, compiled
        return compiled

    def lines(self) -> Iterator[str]:
        """What is compiled, and what is not and why."""
        kinds: Counter[str] = Counter()
        seconds: defaultdict[str, float] = defaultdict(float)
        for number, (module, each) in self._compiled.items():
            kind = type(module).__name__
            if each.specializations:
                kinds[kind] += 1
                seconds[kind] += self._seconds[number]
            elif each.refusals:
                yield f"  not compiled below: {kind}: {_in_a_row(each.refusals[0].text)}"
        for kind, count in kinds.items():
            yield f"  compiled below: {count} {kind}, {seconds[kind]:.3f} s"


def _in_a_row(text: str) -> str:
    return text.replace("\n ", "")


def _still_holds(guard: Guard, leaves: Sequence[Tensor]) -> bool:
    """Whether a guard holds. One of a trace that did not end may have nothing to look at."""
    try:
        return guard.holds(leaves)
    except Exception:
        return False


def _is_called_plainly(module: Any) -> bool:
    """Whether a call of a Module is that of its base class: of another one our part stands inside
    of the user's."""
    return str(type(module).__call__.__module__).startswith("frontend.")


def _eager(function: Callable[..., Any]) -> Callable[..., Any]:
    """What runs where a function does: of a Module what its call does, which is not to come to
    `ModulesBelow` again."""
    module: Any = function
    if is_nn_module(type(module)) and _is_called_plainly(module):
        return function if module._compiled_call_impl is not None else module._call_impl
    return function


def _relied_on(session: Session) -> list[Guard]:
    """What a trace that was refused had looked at."""
    inputs = in_order(session.inputs)
    sources = [each.source for each in inputs]
    captured = [source.captured for source in sources if isinstance(source, CapturedSource)]
    reached = session.captured_globals
    return [
        *reached.guards, *session.guards, tensors_guard([*captured, *session.asked.values()]),
        types_guard([*reached.tensors.values()]), *call_guards(session, inputs, captured),
    ]  # fmt: skip


def check_apart(traced: Trace) -> None:
    """Raise TraceError where a result shares memory in eager mode with an argument, state or
    another result: the code around it may write to one and read the other."""
    session = traced.session
    kept = {id(root_of(tensor)) for _, tensor in session.attributes.results}
    recorded = () if session.effects is None else session.effects.recorded
    handed = [tensor for effect in recorded for tensor in effect.tensors]
    kept |= {id(root_of(x)) for x in handed if all(x is not new for new in traced.new)}
    seen = set(session.captured) | kept
    for tensor in traced.new:
        root = id(root_of(tensor))
        if root in seen:
            raise TraceError(
                f"a result {tensor.tensor_type} shares memory with an argument, state or another "
                "result in eager mode",
                hint="clone() it",
            )
        seen.add(root)

"""Hooks of Modules in a trace. A hook runs once, at the trace: what it does with tensors goes into
the graph, what it does with Python happens that once.

So a tensor it keeps would be met after the trace without a value. Which tensors it may have kept is
known: those it was handed and those made while it ran. After it, each of their references is looked
for where the trace itself holds tensors (what the hook returned, the tape, the session); one that
is found nowhere there is held by the hook.
"""

from __future__ import annotations

import functools
import gc
import inspect
from collections.abc import Callable, Iterator
from types import CellType, FunctionType
from typing import Any

from frontend.engine.eager.tape import AccumulateGrad, TapeNode, next_sequence
from frontend.engine.outside.source import Source
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tensors.views import View
from frontend.engine.tracing.captured import Captured, GraphInput
from frontend.engine.tracing.current_trace import CurrentTrace
from graphc.errors import TraceError
from graphc.ir.builder import user_location
from graphc.ir.nodes import Location
from graphc.references import other_references


def run_watched(trace: CurrentTrace, hook: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """`hook(*args)`. Raises TraceError where the hook keeps a tensor of the trace."""
    return _Watched(trace, hook, args).run()


def refused_in_backward(what: str) -> TraceError:
    """The error of what a hook does in a `backward()` that is called outside of what is compiled:
    it is traced ahead of that, once."""
    return TraceError(
        f"{what} in the backward of a compiled function: it is traced once, and hands out nothing",
        hint="compile the whole step, so that backward() is called inside",
        location=user_location(),
    )


class _Watched:
    """One run of a hook in a trace."""

    def __init__(self, trace: CurrentTrace, hook: Any, args: tuple[Any, ...]):
        self.trace = trace
        self.hook = hook
        self.args = args
        self.handed = _contents(args)[1:]  # not `args`, which is ours
        self.first = next_sequence()

    def run(self) -> Any:
        before = self._unexplained(self.handed, [])
        # Weak references, and a box for the result: this must not keep alive what it looks for.
        outer, self.trace.watched = self.trace.watched, []
        try:
            box = [self.hook(*self.args)]
            references = self.trace.watched
        finally:
            self.trace.watched = outer
        if outer is not None:
            outer += references
        if self._is_kept(before, references, box):
            gc.collect()  # what only a cycle holds is not kept
            if self._is_kept(before, references, box):
                raise self._error()
        return box[0]

    def _is_kept(self, before: list[int], references: list[Any], box: list[Any]) -> bool:
        now = self._unexplained(self.handed, box)
        if any(count > earlier for count, earlier in zip(now, before)):
            return True
        tensors = (reference() for reference in references)
        alive = list({id(tensor): tensor for tensor in tensors if tensor is not None}.values())
        # One reference is that of the list above.
        return any(count > 1 for count in self._unexplained(alive, box))

    def _unexplained(self, objects: list[Any], box: list[Any]) -> list[int]:
        """How many references to each object are not those of the trace."""
        if not objects:
            return []
        counts = dict.fromkeys(map(id, objects), 0)
        self._count(counts, box)
        # That of the list is counted too. No local may be one.
        return [
            other_references(objects, i) + 1 - counts[id(objects[i])] for i in range(len(objects))
        ]

    def _count(self, counts: dict[int, int], box: list[Any]) -> None:
        """Add up, by id, the references from what the trace holds tensors in."""
        for holder in self._holders(box):
            for item in gc.get_referents(holder):
                if id(item) in counts:
                    counts[id(item)] += 1

    def _holders(self, box: list[Any]) -> Iterator[Any]:
        """Every object in which the trace holds tensors, each once."""
        seen: set[int] = set()
        work: list[Any] = [
            box, *self.trace.holding_tensors(), *self.handed,
        ]  # fmt: skip
        while work:
            holder = work.pop()
            if id(holder) in seen:
                continue
            seen.add(id(holder))
            work += self._inside(holder)
            yield holder

    def _inside(self, holder: Any) -> list[Any]:
        """The holders an object refers to."""
        if isinstance(holder, TapeNode) and holder.sequence < self.first:
            # Of what is newer it can hold hooks only.
            return [x for x in (holder.hooks, holder.prehooks, holder.posthooks) if x is not None]
        if isinstance(holder, FunctionType):
            return list(holder.__closure__ or ())
        return [item for item in gc.get_referents(holder) if _is_holder(item)]

    def _error(self) -> TraceError:
        where = _place(self.hook)
        owner = next((f" of {type(x).__name__}" for x in self.args[:1]), "")
        return TraceError(
            f"the hook {_name(self.hook)}{owner} keeps a tensor that is being traced; it has no "
            "value until the compiled code runs",
            hint="hand the value out with frontend.tap(t, fn) in the hook, or run this part "
            "eagerly with frontend.compiler.disable",
            location=where,
        )


_HOLDERS = (
    Tensor, TapeNode, View, AccumulateGrad, Captured, GraphInput, Source, list, tuple, dict,
    FunctionType, CellType, functools.partial,
)  # fmt: skip


def _is_holder(item: Any) -> bool:
    """Whether the trace may hold tensors in an object of this kind: what stands on the tape counts,
    Modules and whatever else the user made does not."""
    kind = type(item)
    if isinstance(item, _HOLDERS) or hasattr(kind, "__dataclass_fields__"):
        return True
    return kind.__module__ == "frontend.autograd.function"


def _contents(value: Any) -> list[Any]:
    """The tensors in the arguments of a hook, and the tuples, lists, dicts and dataclasses they
    stand in."""
    if isinstance(value, Tensor):
        return [value]
    items: Any = ()
    if isinstance(value, tuple | list):
        items = value
    elif isinstance(value, dict):
        items = list(value.values())
    elif hasattr(type(value), "__dataclass_fields__"):
        items = list(vars(value).values())
    contents = [content for item in items for content in _contents(item)]
    return [value, *contents] if contents else []


# -- naming a hook -------------------------------------------------------------------------------


def _function(hook: Any) -> Any:
    """The function behind a hook: of a partial, a bound method, an object with `__call__`."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    if not inspect.isroutine(hook) and not isinstance(hook, type):
        hook = type(hook).__call__
    return inspect.unwrap(getattr(hook, "__func__", hook))


def _name(hook: Any) -> str:
    function = _function(hook)
    return str(getattr(function, "__qualname__", type(hook).__name__))


def _place(hook: Any) -> Location | None:
    code = getattr(_function(hook), "__code__", None)
    if code is None:
        return None
    return Location(code.co_filename, code.co_firstlineno, code.co_name)

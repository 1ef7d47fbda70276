"""Tensors that a traced function assigns to attributes of Modules: caches, statistics, what a layer
keeps for later. They are state: each call of the compiled function assigns what it computed, and
what it reads of such an attribute is what stands there when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.engine.outside.check import ModuleMembers, TypeAndFlag, is_plain
from frontend.engine.outside.guard import Guard, module_guard
from frontend.engine.outside.items import FirstCallError
from frontend.engine.outside.source import Call, CapturedSource, TensorSource
from frontend.engine.tensors.epoch import changed
from frontend.engine.tensors.tensor import Tensor
from graphc.errors import TraceError
from graphc.ir.builder import user_location

_MISSING = object()


class ModuleAttribute:
    """An attribute or buffer of a Module, and what stood there before the trace."""

    def __init__(self, module: Any, name: str):
        self.module = module
        self.name = name
        self.before = self.value

    def __str__(self) -> str:
        return f"{type(self.module).__name__}.{self.name}"

    @property
    def place(self) -> dict[str, Any]:
        state: dict[str, Any] = self.module.__dict__
        buffers: dict[str, Any] = state["_buffers"]
        return buffers if self.name in buffers else state

    @property
    def value(self) -> Any:
        """What stands there now."""
        return self.place.get(self.name, _MISSING)

    @property
    def takes_tensors(self) -> bool:
        """Whether it is no parameter and no submodule."""
        state = self.module.__dict__
        return self.name not in state["_parameters"] and self.name not in state["_modules"]

    def put(self, value: Any) -> None:
        """Let a value stand there."""
        if value is _MISSING:
            self.place.pop(self.name, None)
        else:
            self.place[self.name] = value
        changed()


class AttributeSource(TensorSource):
    """The tensor that an attribute is at each call."""

    __slots__ = ("attribute",)

    order = 4

    def __init__(self, attribute: ModuleAttribute):
        self.attribute = attribute

    @property
    def label(self) -> str:  # type: ignore[override]
        return str(self.attribute)

    def read(self, call: Call) -> Tensor:
        tensor: Tensor = self.attribute.value
        return tensor

    tensor = read


def assigned_guard(attribute: ModuleAttribute) -> Guard:
    """An attribute is a tensor of the type it had, and requires gradients or not, as it did."""
    return Guard(AttributeSource(attribute), TypeAndFlag(attribute.before))


class AssignedAttributes:
    """Those that the trace under way assigned."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], ModuleAttribute] = {}
        self._final: list[tuple[ModuleAttribute, Tensor]] = []

    def takes(self, owner: Any, name: str, value: Any, is_state: bool) -> bool:
        """Note that an attribute is about to be assigned, `is_state`: a tensor that each call can
        assign; whether it may be."""
        return self._assigned(owner, name) if is_state else self._put_back(owner, name, value)

    def _assigned(self, module: Any, name: str) -> bool:
        if (id(module), name) in self._known:
            return True
        attribute = ModuleAttribute(module, name)
        known = isinstance(attribute.before, Tensor) or is_plain(attribute.before)
        if not attribute.takes_tensors or not (known or attribute.before is _MISSING):
            return False
        self._known[id(module), name] = attribute
        return True

    def _put_back(self, module: Any, name: str, value: Any) -> bool:
        """Whether an attribute that was assigned is given what it was before the trace."""
        attribute = self._known.get((id(module), name))
        return attribute is not None and value is attribute.before

    def restore(self) -> None:
        """All attributes as they were before the trace; what they are in it is kept."""
        self._final = self.results
        for attribute in self._known.values():
            attribute.put(attribute.before)
        self._known = {}

    @property
    def results(self) -> list[tuple[ModuleAttribute, Tensor]]:
        """The attributes that are other tensors than before, and these."""
        if not self._known:
            return self._final
        return [
            (attribute, attribute.value)
            for attribute in self._known.values()
            if isinstance(attribute.value, Tensor) and attribute.value is not attribute.before
        ]

    def replaces(self, tensor: Tensor) -> bool:
        """Whether an attribute was this tensor before the trace, and is another one now."""
        return any(each.before is tensor for each in self.replaced)

    @property
    def places(self) -> list[dict[str, Any]]:
        """What holds them."""
        return [attribute.place for attribute in self._known.values()]

    @property
    def replaced(self) -> list[ModuleAttribute]:
        """Those of the results that were tensors before, too."""
        return [each for each, _ in self.results if isinstance(each.before, Tensor)]

    def settle(self, inputs: Sequence[Any], guards: list[Guard]) -> None:
        """After the trace: what was read of them is read anew at each call, and the guards of their
        Modules no longer ask whether they are the same tensors."""
        self._check_alone(guards)
        for attribute in self.replaced:
            for graph_input in inputs:
                captured = isinstance(graph_input.source, CapturedSource)
                if captured and graph_input.tensor is attribute.before:
                    graph_input.source = AttributeSource(attribute)
        names: dict[int, set[str]] = {id(each.module): set() for each, _ in self.results}
        for attribute in self.replaced:
            names[id(attribute.module)].add(attribute.name)
        for position, guard in enumerate(guards):
            if isinstance(guard.check, ModuleMembers) and id(guard.source.owner) in names:
                # Made anew: the attribute may have been assigned before the Module ran.
                own = {*names[id(guard.source.owner)], *guard.check.assigned}
                guards[position] = module_guard(guard.source.owner, own)

    def _check_alone(self, guards: list[Guard]) -> None:
        """Raise TraceError where a tensor that is replaced is an attribute of another name, too:
        at the next call they would be two tensors."""
        replaced = {id(each.before): each for each in self.replaced}
        mine = {(id(each.module), each.name) for each in self.replaced}
        for guard in guards if replaced else ():
            if not isinstance(guard.check, ModuleMembers):
                continue
            module = guard.source.owner
            state = vars(module)
            for name, value in [*state.items(), *state["_buffers"].items()]:
                if id(value) in replaced and (id(module), name) not in mine:
                    raise TraceError(
                        f"{replaced[id(value)]} is assigned while tracing, and the tensor that it "
                        f"was is {type(module).__name__}.{name}, too",
                        hint="give each a tensor of its own: clone() it",
                    )


def refused_attribute(owner: Any, name: str, value: Any) -> TraceError:
    """The error of an attribute of a Module that a trace assigns and no call could."""
    hint = "assign it outside; keep changing numbers in a buffer, updated in place (add_, copy_)"
    if isinstance(value, Tensor):
        hint = "return it, copy_() it into a buffer, or hand it out with frontend.tap(t, fn)"
    return FirstCallError(
        f"{type(owner).__name__}.{name} is assigned while tracing; compiled code would not repeat "
        "the assignment",
        hint=hint,
        location=user_location(),
    )

"""What was added to a tensor, by a user or a class of theirs: its `__dict__`.

The instance's dict holds more, what the engine keeps of a tensor (`Tensor._instance_state`). Who
copies the attributes of one tensor to another (`new.__dict__.update(old.__dict__)`) means only
these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex

from frontend.engine.tensors.autograd_members import AutogradMembers

_OWN = frozenset({*AutogradMembers.__annotations__, "_value", "tensor_type"})
_MISSING = object()

STATE_OF = vars(AutogradMembers)["__dict__"]
"""The descriptor of the instance's dict."""


def added_to(state: dict[str, Any]) -> dict[str, Any]:
    """What was added, of all that a tensor's dict holds."""
    return {name: value for name, value in state.items() if name not in _OWN}


class AddedAttributes(dict[str, Any]):
    """The attributes that were added to a tensor; what is written here is written there. Raises
    AttributeError for the names of what the engine keeps."""

    __slots__ = ("_state",)

    def __init__(self, state: dict[str, Any]):
        super().__init__(added_to(state))
        self._state = state

    def __setitem__(self, name: str, value: Any) -> None:
        if name in _OWN:
            raise AttributeError(f"{name!r} belongs to the tensor: set it by attribute")
        super().__setitem__(name, value)
        self._state[name] = value

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        del self._state[name]

    def update(self, *others: Any, **values: Any) -> None:
        for name, value in dict(*others, **values).items():
            self[name] = value

    def __ior__(self, other: Any) -> AddedAttributes:  # type: ignore[override,misc]
        self.update(other)
        return self

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def pop(self, name: str, default: Any = _MISSING) -> Any:
        if name not in self and default is not _MISSING:
            return default
        value = self[name]
        del self[name]
        return value

    def popitem(self) -> tuple[str, Any]:
        name, value = super().popitem()
        del self._state[name]
        return name, value

    def clear(self) -> None:
        for name in list(self):
            del self[name]

    def replace(self, attributes: dict[str, Any] | Iterable[Any]) -> None:
        """Let these be all."""
        attributes = dict(attributes)
        self.clear()
        self.update(attributes)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """Copies and pickles are plain dicts."""
        return dict, (dict(self),)


def _added(tensor: Any) -> AddedAttributes:
    return AddedAttributes(STATE_OF.__get__(tensor))


def _replace(tensor: Any, attributes: dict[str, Any]) -> None:
    _added(tensor).replace(attributes)


class ClassOfTensors(type):
    """Of Tensor and all classes derived from it: their instances have this `__dict__`, also where
    another base comes first, which has one of its own."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], body: dict[str, Any], **options: Any
    ) -> ClassOfTensors:
        doc = "What was added to the tensor."
        body.setdefault("__dict__", property(_added, _replace, doc=doc))
        return super().__new__(cls, name, bases, body, **options)

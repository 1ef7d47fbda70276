"""Hooks of Modules that a traced function registers and removes again."""

from __future__ import annotations

from typing import Any

from frontend.engine.outside.check import ModuleMembers
from frontend.engine.outside.guard import Guard
from frontend.engine.tensors.hooks import RemovableHandle, refuse_hook


class HooksInside:
    """Those of the trace under way. They may keep traced tensors: so does the function."""

    def __init__(self) -> None:
        self._handles: list[RemovableHandle] = []
        self._hooks: list[Any] = []

    def registered(self, handle: RemovableHandle, hook: Any) -> None:
        self._handles.append(handle)
        self._hooks.append(hook)

    def made_inside(self, hook: Any) -> bool:
        """Whether a hook was registered in this trace."""
        return any(hook is one for one in self._hooks)

    def check_removed(self) -> None:
        """Raise TraceError where one is still there: no call would register it again."""
        for handle in self._handles:
            if handle.registry is not None and handle.id in handle.registry:
                refuse_hook()

    def remove(self) -> None:
        """Take off what is still there."""
        for handle in self._handles:
            handle.remove()

    def settle(self, guards: list[Guard]) -> None:
        """After the trace: guards on Modules that were made while a hook was there, anew."""
        registries = {id(handle.registry) for handle in self._handles}
        for guard in guards:
            check = guard.check
            if isinstance(check, ModuleMembers) and registries & set(map(id, check.dicts)):
                guard.renew()

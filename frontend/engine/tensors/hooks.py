"""Handles that take hooks off again."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from graphc.errors import TraceError
from graphc.ir.builder import user_location


def refuse_hook() -> None:
    """Raise the TraceError of a hook registered while tracing: it would be there from the trace
    on, and no call would register it again."""
    raise TraceError(
        "a hook is registered while tracing; compiled code would not repeat that",
        hint="register it outside: the next call traces again; or, a forward hook of a Module, "
        "remove it before the function returns",
        location=user_location(),
    )


class RemovableHandle:
    """A hook registered under `id`; `remove()`, or leaving a `with` block, takes it off.

    `hooks_dict` holds the hooks. It is held weakly where it can be: a handle does not keep a module
    alive. `hook` is put into it; what else is known of the hook by its id stands in `extra_dict`, a
    dict or a list of dicts. A pickled handle removes the hook of the module it is pickled with.
    """

    __module__ = "frontend.utils.hooks"  # where pickles look for it
    next_id = 0

    def __init__(self, hooks_dict: Any, hook: Any = None, *, extra_dict: Any = None):
        self.hooks_dict_ref = _reference(hooks_dict)
        # An unpickled module may hold ids that were given elsewhere.
        while RemovableHandle.next_id in hooks_dict:
            RemovableHandle.next_id += 1
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra = [extra_dict] if isinstance(extra_dict, dict) else extra_dict or []
        self.extra_dict_ref = tuple(map(_reference, extra))
        if hook is not None:
            hooks_dict[self.id] = hook

    @property
    def registry(self) -> Any:
        """What holds the hook, or held it; None where that is gone."""
        return self.hooks_dict_ref()

    def remove(self) -> None:
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks, self.id, extra = state
        self.hooks_dict_ref = _reference(_or_empty(hooks))
        self.extra_dict_ref = tuple(_reference(_or_empty(items)) for items in extra)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


def _or_empty(hooks: Any) -> Any:
    return OrderedDict() if hooks is None else hooks


def _reference(hooks: Any) -> Callable[[], Any]:
    """A weak reference, or a strong one to what cannot be referred to weakly: a plain dict."""
    return weakref.ref(hooks) if isinstance(hooks, OrderedDict) else lambda: hooks

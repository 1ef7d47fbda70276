"""What a Module saves and loads with all below it: `state_dict`, `load_state_dict` and their hooks.
One module's part stands in `own_state.py`, the course of a load in `loading.py`."""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from frontend.engine.tensors.hooks import RemovableHandle
from frontend.nn.modules.loading import IncompatibleKeys, load_into
from frontend.nn.modules.own_state import OwnState


class StateDict(OwnState):
    """Members of Module that save and load a tree of modules."""

    _version: int = 1
    """Written into `_metadata` of state dicts, for `_load_from_state_dict` to tell old ones by."""

    if TYPE_CHECKING:
        _modules: dict[str, Any]
        _state_dict_hooks: OrderedDict[int, Any]
        _state_dict_pre_hooks: OrderedDict[int, Any]
        _load_state_dict_post_hooks: OrderedDict[int, Any]

    # -- saving ------------------------------------------------------------------------------

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Parameters and persistent buffers by dotted name: detached references, not copies
        (`keep_vars` gives the tensors themselves).

        They are added to `destination` (a new OrderedDict by default), whose attribute `_metadata`
        holds the `_version` of each module. Positional arguments are deprecated.
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead.",
                FutureWarning,
                stacklevel=2,
            )
            if len(args) > 3:
                raise TypeError(f"state_dict() takes at most 3 arguments, got {len(args)}")
            positional = dict(zip(("destination", "prefix", "keep_vars"), args))
            destination = positional.get("destination", destination)
            prefix = positional.get("prefix", prefix)
            keep_vars = positional.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                path = f"{prefix}{name}."
                child.state_dict(destination=destination, prefix=path, keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            returned = hook(self, destination, prefix, local_metadata)
            if returned is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = returned
        return destination

    # -- loading -----------------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values by name into parameters and buffers, or, with `assign`, put the given tensors
        in their place.

        Names on one side only are returned as `missing_keys` and `unexpected_keys`, or, with
        `strict`, are errors. All errors (shapes too) stand in one RuntimeError, and the module is
        then as it was before. Raises TypeError where `state_dict` is no mapping.
        """
        return load_into(self, state_dict, strict, assign)

    # -- hooks -------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, prefix, keep_vars)` runs before `state_dict` collects anything."""
        return RemovableHandle(self._state_dict_pre_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata)` runs when all is collected; it may
        return a dict to put in place of it."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously "
                "registered via register_state_dict_post_hook"
            )
        return RemovableHandle(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """As `_register_state_dict_hook`; the hook may change the dict but returns None."""
        hook._from_public_api = True
        return RemovableHandle(self._state_dict_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """`hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)`, with the module first where `with_module`, runs before this module loads."""
        wrapped = WrappedHook(hook, self if with_module else None)
        return RemovableHandle(self._load_state_dict_pre_hooks, wrapped)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)` runs before this module loads; it may change the state dict and the lists."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, incompatible_keys)` runs when this module and those below it have loaded;
        it may change the lists of keys, whose content decides whether a strict load fails."""
        return RemovableHandle(self._load_state_dict_post_hooks, hook)


class WrappedHook:
    """A hook that is handed its module. The module is held weakly: it holds the hook. Copies and
    pickles go with the module."""

    def __init__(self, hook: Callable[..., Any], module: Any = None):
        self.hook = hook
        self.with_module = module is not None
        self._module = None if module is None else weakref.ref(module)

    def __call__(self, *args: Any) -> Any:
        if self._module is None:
            return self.hook(*args)
        module = self._module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args)

    def __getstate__(self) -> dict[str, Any]:
        module = None if self._module is None else self._module()
        return {"hook": self.hook, "with_module": self.with_module, "module": module}

    def __setstate__(self, state: dict[str, Any]) -> None:
        module = state["module"]
        if state["with_module"] and module is None:
            raise RuntimeError("You are trying to revive the hook of a dead Module!")
        self.hook = state["hook"]
        self.with_module = state["with_module"]
        self._module = None if module is None else weakref.ref(module)

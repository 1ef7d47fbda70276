"""What a Module saves and loads: `state_dict`, `load_state_dict`, their hooks and extension points.
The checks and the copying stand in `loading.py`."""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from frontend.nn.modules.loading import IncompatibleKeys, load_into, matched, put
from frontend.tensors.hooks import RemovableHandle

EXTRA_STATE = "_extra_state"


class StateDict:
    """Members of Module that save and load."""

    _version: int = 1
    """Written into `_metadata` of state dicts, for `_load_from_state_dict` to tell old ones by."""

    if TYPE_CHECKING:
        _parameters: dict[str, Any]
        _buffers: dict[str, Any]
        _modules: dict[str, Any]
        _non_persistent_buffers_set: set[str]
        _state_dict_hooks: OrderedDict[int, Any]
        _state_dict_pre_hooks: OrderedDict[int, Any]
        _load_state_dict_pre_hooks: OrderedDict[int, Any]
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
            given = dict(zip(("destination", "prefix", "keep_vars"), args))
            destination = given.get("destination", destination)
            prefix = given.get("prefix", prefix)
            keep_vars = given.get("keep_vars", keep_vars)
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

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Add what this module alone holds to `destination`; a subclass may add more."""
        members = [*self._parameters.items()]
        transient = self._non_persistent_buffers_set
        members += [item for item in self._buffers.items() if item[0] not in transient]
        for name, value in members:
            if value is not None:
                destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not StateDict.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """More state than tensors, for the state dict; a subclass that has some defines this and
        `set_extra_state`."""
        raise RuntimeError(f"{type(self).__name__} defines no get_extra_state()")

    def set_extra_state(self, state: Any) -> None:
        """Takes what `get_extra_state` gave, when a state dict is loaded."""
        raise RuntimeError(f"{type(self).__name__} defines no set_extra_state()")

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

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load what this module alone holds from the entries of `state_dict` under `prefix`; a
        subclass may change how. Problems are added to the three lists."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                error_msgs,
            )  # fmt: skip
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        found = matched(
            self, state_dict, prefix, strict, assign, missing_keys, unexpected_keys, error_msgs
        )
        for name, target, value in found:
            put(self, name, target, value, assign)
        key = prefix + EXTRA_STATE
        if key in state_dict and takes_extra_state(self):
            self.set_extra_state(state_dict[key])

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


def takes_extra_state(module: Any) -> bool:
    """Whether the class of a module defines `set_extra_state`."""
    return type(module).set_extra_state is not StateDict.set_extra_state


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

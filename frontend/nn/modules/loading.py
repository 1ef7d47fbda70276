"""Loading a state dict into a tree of Modules: all checks, then the copying; or, where modules have
a say of their own, the copying with a way back."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from frontend.engine.tensors.epoch import changed
from frontend.engine.tensors.memory_tracking import count_write
from frontend.engine.tensors.tensor import Tensor
from frontend.nn.modules.own_state import OwnState, matched, put, takes_extra_state


class _IncompatibleKeys(NamedTuple):
    missing_keys: list[str]
    unexpected_keys: list[str]


class IncompatibleKeys(_IncompatibleKeys):
    """Names in the module but not in the state dict, and the other way round."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )

    __str__ = __repr__


def load_into(module: Any, state_dict: Any, strict: bool, assign: bool) -> IncompatibleKeys:
    """See `Module.load_state_dict`."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    loading = _Loading(state_dict, strict, assign)
    entries: Any = OrderedDict(state_dict)
    if hasattr(state_dict, "_metadata"):
        entries._metadata = state_dict._metadata
    if _is_plain(module):
        copies = loading.planned(module, entries, "")
        loading.raise_errors(module)
        for owner, name, target, value in copies:
            put(owner, name, target, value, assign)
        return loading.keys
    with _undone_on_error(module):
        loading.run(module, entries, "")
        loading.raise_errors(module)
    return loading.keys


def _is_plain(module: Any) -> bool:
    """Whether no module of the tree takes part in loading with code of its own, so that checking
    first is enough."""
    default = OwnState._load_from_state_dict
    for part in module.modules():
        own = getattr(part._load_from_state_dict, "__func__", None) is not default
        hooked = part._load_state_dict_pre_hooks or part._load_state_dict_post_hooks
        if own or hooked or takes_extra_state(part):
            return False
    return True


class _Loading:
    """One call of `load_state_dict`: its settings, and the problems found so far."""

    def __init__(self, state_dict: Any, strict: bool, assign: bool):
        self.metadata = getattr(state_dict, "_metadata", None) or {}
        self.strict = strict
        self.assign = assign
        self.keys = IncompatibleKeys([], [])
        self.errors: list[str] = []

    def planned(
        self, module: Any, state_dict: Any, prefix: str
    ) -> list[tuple[Any, str, Tensor, Tensor]]:
        """What is to be copied in a tree without loading code of its own."""
        members = matched(module, state_dict, prefix, True, self.assign, *self.keys, self.errors)
        copies = [(module, *item) for item in members]
        for child, part, path in _children(module, state_dict, prefix):
            copies += self.planned(child, part, path)
        return copies

    def run(self, module: Any, state_dict: Any, prefix: str) -> None:
        """Let each module load its part, parents first; post-hooks run children first."""
        metadata = dict(self.metadata.get(prefix[:-1], {}))
        if self.assign:
            metadata["assign_to_params_buffers"] = True
        module._load_from_state_dict(state_dict, prefix, metadata, True, *self.keys, self.errors)
        for child, part, path in _children(module, state_dict, prefix):
            self.run(child, part, path)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, self.keys) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected "
                    "to return new values, if incompatible_keys need to be modified, it should be "
                    "done inplace."
                )

    def raise_errors(self, module: Any) -> None:
        """Raise RuntimeError with all that was found, if anything was."""
        errors = []
        if self.strict and self.keys.missing_keys:
            missing = _quoted(self.keys.missing_keys)
            errors.append(f"Missing key(s) in state_dict: {missing}. ")
        if self.strict and self.keys.unexpected_keys:
            unexpected = _quoted(self.keys.unexpected_keys)
            errors.append(f"Unexpected key(s) in state_dict: {unexpected}. ")
        errors += self.errors
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{listed}"
            )


def _children(module: Any, state_dict: Any, prefix: str) -> Iterator[tuple[Any, Any, str]]:
    """Each child with its part of the state dict (read when it is its turn) and its prefix."""
    for name, child in module._modules.items():
        if child is not None:
            path = f"{prefix}{name}."
            part = {key: value for key, value in state_dict.items() if key.startswith(path)}
            yield child, part, path


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


# -- the way back --------------------------------------------------------------------------------


@contextmanager
def _undone_on_error(module: Any) -> Iterator[None]:
    """Put modules, their containers and their tensors back as they were where the body raises."""
    modules = list(module.modules())
    kept = [_OldState(part) for part in modules]
    try:
        yield
    except BaseException:
        for state in kept:
            state.restore()
        changed()
        raise


class _OldState:
    """The state of one module: its attributes, the content of lists, dicts and sets among them, and
    its tensors. What stands inside other objects is not followed."""

    def __init__(self, module: Any):
        self.state = vars(module)
        self.attributes = dict(self.state)
        held = [*self.state.values(), *module._parameters.values(), *module._buffers.values()]
        self.containers = [(x, copy.copy(x)) for x in held if isinstance(x, dict | list | set)]
        self.tensors = [
            (
                x,
                dict(x._instance_state),
                np.array(x._value) if isinstance(x._value, np.ndarray) else None,
            )
            for x in held
            if isinstance(x, Tensor)
        ]

    def restore(self) -> None:
        self.state.clear()
        self.state.update(self.attributes)
        for container, content in self.containers:
            _refill(container, content)
        for tensor, state, array in self.tensors:
            tensor._instance_state.clear()
            tensor._instance_state.update(state)
            if array is not None and tensor._value.flags.writeable:
                np.copyto(tensor._value, array)
                count_write(tensor._counter)


def _refill(container: Any, content: Any) -> None:
    container.clear()
    if isinstance(container, list):
        container.extend(content)
    else:
        container.update(content)

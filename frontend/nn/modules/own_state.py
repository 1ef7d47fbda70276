"""What one Module saves and loads alone, without those below it: its parameters, its persistent
buffers and its extra state, as entries of a state dict under a prefix."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.nn.parameter import Parameter

EXTRA_STATE = "_extra_state"


class OwnState:
    """Members of Module that a subclass defines anew to save or load more than tensors, or other
    than by name."""

    if TYPE_CHECKING:
        _parameters: dict[str, Any]
        _buffers: dict[str, Any]
        _modules: dict[str, Any]
        _non_persistent_buffers_set: set[str]
        _load_state_dict_pre_hooks: OrderedDict[int, Any]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Add what this module alone holds to `destination`; a subclass may add more."""
        members = [*self._parameters.items()]
        transient = self._non_persistent_buffers_set
        members += [item for item in self._buffers.items() if item[0] not in transient]
        for name, value in members:
            if value is not None:
                destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not OwnState.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """More state than tensors, for the state dict; a subclass that has some defines this and
        `set_extra_state`."""
        raise RuntimeError(f"{type(self).__name__} defines no get_extra_state()")

    def set_extra_state(self, state: Any) -> None:
        """Takes what `get_extra_state` gave, when a state dict is loaded."""
        raise RuntimeError(f"{type(self).__name__} defines no set_extra_state()")

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
        matches = matched(
            self, state_dict, prefix, strict, assign, missing_keys, unexpected_keys, error_msgs
        )
        for name, target, value in matches:
            put(self, name, target, value, assign)
        key = prefix + EXTRA_STATE
        if key in state_dict and takes_extra_state(self):
            self.set_extra_state(state_dict[key])


def takes_extra_state(module: Any) -> bool:
    """Whether the class of a module defines `set_extra_state`."""
    return type(module).set_extra_state is not OwnState.set_extra_state


def matched(
    module: Any,
    state_dict: Any,
    prefix: str,
    strict: bool,
    assign: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> list[tuple[str, Tensor, Tensor]]:
    """Name, tensor and new value of what `module` alone loads; problems go into the lists."""
    transient = module._non_persistent_buffers_set
    members = {**module._parameters, **module._buffers}
    members = {k: v for k, v in members.items() if v is not None and k not in transient}
    matches = []
    for name, target in members.items():
        key = prefix + name
        if key not in state_dict:
            missing_keys.extend([key] if strict else ())
            continue
        value = state_dict[key]
        problem = _mismatch(key, target, value, assign)
        if problem is not None:
            error_msgs.append(problem)
            continue
        if target.dim() == 0 and value.dim() == 1:  # as very old checkpoints hold scalars
            value = value[0]
        matches.append((name, target, value))
    if not strict:
        return matches
    extra = prefix + EXTRA_STATE
    if takes_extra_state(module) and extra not in state_dict:
        missing_keys.append(extra)
    if not takes_extra_state(module) and extra in state_dict:
        unexpected_keys.append(extra)
    for key in state_dict:
        if not key.startswith(prefix) or key == extra:
            continue
        name, dot, _ = key[len(prefix) :].partition(".")
        if name not in (module._modules if dot else members):
            unexpected_keys.append(key)
    return matches


def _mismatch(key: str, target: Tensor, value: Any, assign: bool) -> str | None:
    """Why `value` cannot be loaded into `target`."""
    if not isinstance(value, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
            f"object from checkpoint but received {type(value)}"
        )
    have, wanted = tuple(value.shape), tuple(target.shape)
    if have != wanted and not (wanted == () and have == (1,)):
        return (
            f"size mismatch for {key}: copying a param with shape torch.Size({list(have)}) "
            f"from checkpoint, the shape in current model is torch.Size({list(wanted)})."
        )
    array = target._value
    if not assign and isinstance(array, np.ndarray) and not array.flags.writeable:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are '
            f"torch.Size({list(wanted)}): its elements share memory and cannot be written."
        )
    return None


def put(module: Any, name: str, target: Tensor, value: Tensor, assign: bool) -> None:
    """Copy `value` into `target`, or put it in its place."""
    if not assign:
        if target.is_meta and not value.is_meta:
            warnings.warn(
                f"for {name}: copying from a non-meta parameter in the checkpoint to a meta "
                "parameter in the current model, which is a no-op. (Did you mean to pass "
                "`assign=True` to assign items in the state dictionary to their corresponding key "
                "in the module instead of copying them in place?)",
                stacklevel=2,
            )
        with no_grad():
            target.copy_(value)
        return
    if isinstance(target, Parameter):
        if not isinstance(value, Parameter):
            value = Parameter(value, requires_grad=target.requires_grad)
        else:
            value.requires_grad_(target.requires_grad)
    setattr(module, name, value)

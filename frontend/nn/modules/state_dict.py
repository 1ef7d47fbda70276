"""State dicts of Modules: what `state_dict` lists and how `load_state_dict` checks and copies."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from frontend.state import no_grad
from frontend.tensor import Tensor

if TYPE_CHECKING:
    from frontend.nn.modules.module import Module


class IncompatibleKeys(NamedTuple):
    """Names in the module but not in the state dict, and the other way round."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


def saved_members(module: Module, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """Dotted name and tensor of what a checkpoint holds: per module its parameters, then its
    persistent buffers, then its children. A shared tensor stands under each of its names."""
    members = [(name, value) for name, value in module._parameters.items()]
    transient = module._non_persistent_buffers_set
    members += [(name, value) for name, value in module._buffers.items() if name not in transient]
    for name, value in members:
        if value is not None:
            yield prefix + name, value
    for name, child in module._modules.items():
        if child is not None:
            yield from saved_members(child, f"{prefix}{name}.")


def state_of(module: Module, prefix: str, keep_vars: bool) -> OrderedDict[str, Any]:
    """The state dict of a module: see `Module.state_dict`."""
    return OrderedDict(
        (name, value if keep_vars else value.detach())
        for name, value in saved_members(module, prefix)
    )


def load_into(module: Module, state_dict: Mapping[str, Any], strict: bool) -> IncompatibleKeys:
    """Check every name and shape, then copy: see `Module.load_state_dict`."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    targets = dict(saved_members(module))
    result = IncompatibleKeys(
        [name for name in targets if name not in state_dict],
        [name for name in state_dict if name not in targets],
    )
    errors = []
    if strict and result.missing_keys:
        errors.append(f"Missing key(s) in state_dict: {_quoted(result.missing_keys)}. ")
    if strict and result.unexpected_keys:
        errors.append(f"Unexpected key(s) in state_dict: {_quoted(result.unexpected_keys)}. ")
    shared = [name for name in targets if name in state_dict]
    errors += filter(None, (_mismatch(name, targets[name], state_dict[name]) for name in shared))
    if errors:
        listed = "\n\t".join(errors)
        raise RuntimeError(f"Error(s) in loading state_dict for {module._get_name()}:\n\t{listed}")
    with no_grad():
        for name in shared:
            targets[name].copy_(state_dict[name])
    return result


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _mismatch(name: str, target: Tensor, value: Any) -> str | None:
    if not isinstance(value, Tensor):
        return (
            f'While copying the parameter named "{name}", expected torch.Tensor or Tensor-like '
            f"object from checkpoint but received {type(value)}"
        )
    if tuple(value.shape) == tuple(target.shape):
        return None
    return (
        f"size mismatch for {name}: copying a param with shape torch.Size({list(value.shape)}) "
        f"from checkpoint, the shape in current model is torch.Size({list(target.shape)})."
    )

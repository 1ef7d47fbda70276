"""`torch.nn.utils._named_member_accessor`: another tensor in the place of a Module's own."""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.nn.modules.module import Module


def swap_tensor(
    module: Module, name: str, tensor: Tensor | None, allow_missing: bool = False
) -> Tensor | None:
    """Put `tensor` where a parameter, buffer or attribute of this name is, and return that; None
    takes it away. Raises KeyError for a name with a dot, AttributeError where there is none (None
    with `allow_missing`), TypeError for what is no tensor."""
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if "." in name or not name:
        raise KeyError(f'tensor name can\'t be empty or contain ".": {name!r}')
    own: dict[str, Any] = vars(module)
    for members in (module._parameters, module._buffers):
        if name in members:
            own = members
    if name not in own and not allow_missing:
        raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
    before = own.get(name)
    if before is not None and not isinstance(before, Tensor):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is None:
        own.pop(name, None)
    else:
        own[name] = tensor
    return before

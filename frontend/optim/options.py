"""What the optimizers check: their options, and the parameters they are given."""

from __future__ import annotations

import warnings
from typing import Any

from frontend.engine.tensors.tensor import Tensor

EXECUTION = ("foreach", "fused", "capturable", "differentiable")
"""Options that do not change what a step computes."""


def execution_options(**options: Any) -> dict[str, Any]:
    """PyTorch's options on how a step is carried out, kept in the groups as there. They change
    nothing here: compiled, a step is one native call. Raises for `differentiable`, which would
    change what is recorded, and for options that exclude each other."""
    if options.get("fused") and options.get("differentiable"):
        raise RuntimeError("`fused` does not support `differentiable`")
    if options.get("fused") and options.get("foreach"):
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    if options.get("differentiable"):
        raise ValueError("differentiable=True is not supported: a step is never recorded")
    return options


def check_options(lr: Any, eps: Any = 0.0, betas: Any = (), weight_decay: Any = 0.0) -> None:
    """Raise ValueError in PyTorch's words for an option out of its range."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    if lr < 0.0:
        raise ValueError(f"Invalid learning rate: {lr}")
    if eps < 0.0:
        raise ValueError(f"Invalid epsilon value: {eps}")
    if len({isinstance(beta, Tensor) for beta in betas}) > 1:
        raise ValueError("betas must be either both floats or both Tensors")
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
    if weight_decay < 0.0:
        raise ValueError(f"Invalid weight_decay value: {weight_decay}")


def number_now(group: Any, name: str) -> Any:
    """A number among the options of a group as it is now, unguarded: for state made from it."""
    value = dict.__getitem__(group, name)
    return value.detach().reshape(()) if isinstance(value, Tensor) else value


def checked_parameters(params: Any) -> tuple[list[Tensor], list[str] | None]:
    """The parameters of a group as a list of leaves, and their names where they have any."""
    if isinstance(params, Tensor):
        params = [params]
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of "
            "tensors in sets will change between runs. Please use a list instead."
        )
    items = list(params)
    named = [item for item in items if isinstance(item, tuple)]
    if named and len(named) != len(items):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    checked = [item[1] for item in named] or items
    for p in checked:
        if not isinstance(p, Tensor):
            raise TypeError(
                f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}"
            )
        if not p.is_leaf:
            raise ValueError("can't optimize a non-leaf Tensor")
    if len({id(p) for p in checked}) != len(checked):
        warnings.warn(
            "optimizer contains a parameter group with duplicate parameters; in future, this will "
            "cause an error",
            stacklevel=4,
        )
    return checked, [item[0] for item in named] or None

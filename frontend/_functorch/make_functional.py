"""Modules as functions of tuples of tensors, which the package functorch had before torch.func;
those of today take dicts (`torch.func.functional_call`)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.func.modules import functional_call
from frontend.functions.shape import stack
from frontend.nn.modules.module import Module


class FunctionalModuleWithBuffers(Module):
    """`f(params, buffers, *args, **kwargs)`: what `stateless_model` gives with these tensors, in
    the order of `param_names` and `buffer_names`."""

    def __init__(
        self, stateless_model: Module, param_names: Sequence[str], buffer_names: Sequence[str] = ()
    ):
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = tuple(param_names), tuple(buffer_names)

    def forward(
        self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        """Raises ValueError where there are more or fewer tensors than names."""
        tensors = dict(zip(self.param_names, params, strict=True))
        tensors.update(zip(self.buffer_names, buffers, strict=True))
        return functional_call(self.stateless_model, tensors, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """`f(params, *args, **kwargs)`, of a Module without buffers."""

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        return super().forward(params, (), *args, **kwargs)


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The function, and copies of the Module's parameters (with `disable_autograd_tracking` none
    that requires gradients) and buffers."""
    model = copy.deepcopy(model)
    params, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    if disable_autograd_tracking:
        for each in params.values():
            each.requires_grad_(False)
    function = FunctionalModuleWithBuffers(model, [*params], [*buffers])
    return function, tuple(params.values()), tuple(buffers.values())


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """The function, and copies of the Module's parameters. Raises RuntimeError where it has
    buffers."""
    function, params, buffers = make_functional_with_buffers(model, disable_autograd_tracking)
    if buffers:
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    return FunctionalModule(function.stateless_model, function.param_names), params


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The function of the first of `models`, which are of one class, and the parameters and buffers
    of all of them, stacked: what vmap takes. Raises RuntimeError where there is none, or they are
    of several classes, or some train and others do not."""
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same training/eval mode."
        )
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to be of the same class."
        )
    functions, params, buffers = zip(*map(make_functional_with_buffers, models), strict=True)
    return functions[0], _stacked(params), _stacked(buffers)


def _stacked(states: Sequence[Sequence[Tensor]]) -> tuple[Tensor, ...]:
    return tuple(stack([*each]).detach().requires_grad_(each[0].requires_grad)
                 for each in zip(*states, strict=True))  # fmt: skip

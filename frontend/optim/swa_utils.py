"""`torch.optim.swa_utils`: averages of a model's weights over training, and their learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

from frontend.engine.tensors.dtypes import int64
from frontend.engine.tensors.state import STATE, no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import tensor
from frontend.functions.pointwise import where
from frontend.nn.modules.batchnorm import _BatchNorm
from frontend.nn.modules.module import Module
from frontend.optim.lr_scheduler.base import LRScheduler
from frontend.optim.optimizer import Optimizer

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """(average, weight, count) to `decay` · average + (1 - decay) · weight. Raises ValueError for a
    decay outside of [0, 1]."""
    _check_decay(decay)

    @no_grad()
    def update(average: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        return decay * average + (1 - decay) * current

    return update


def get_swa_avg_fn() -> Callable[..., Any]:
    """(average, weight, count) to the average of count + 1 weights."""

    @no_grad()
    def update(average: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        return average + (current - average) / (num_averaged + 1)

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """The same as `get_ema_avg_fn` for lists of tensors, in place; integers are copied."""
    return _in_place(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Callable[..., Any]:
    """The same as `get_swa_avg_fn` for lists of tensors, in place; integers are copied."""
    return _in_place(get_swa_avg_fn())


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] "
                         "range.")  # fmt: skip


def _in_place(average: Callable[..., Any]) -> Callable[..., Any]:
    @no_grad()
    def update(averages: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Any) -> None:
        for kept, new in zip(averages, current):
            floats = kept.dtype.is_float or kept.dtype.is_complex
            kept.copy_(average(kept, new, num_averaged) if floats else new)

    return update


class AveragedModel(Module):
    """A copy of `model` whose parameters are averages of those it is shown by
    `update_parameters(model)`: all of equal weight, or by `avg_fn(average, weight, count)`, or
    `multi_avg_fn(averages, weights, count)` in place. Buffers are copied, with `use_buffers`
    averaged, too. `n_averaged` (int64, 0-d) counts the updates; the first one copies.

    Raises AssertionError where both functions are given. Updates may be compiled.
    """

    n_averaged: Tensor

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Any = None, multi_avg_fn: Any = None,
        use_buffers: bool = False,
    ):  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the model's weights into the averages."""
        averages, current = [*_weights(self.module, self.use_buffers)], [
            each.detach() for each in _weights(model, self.use_buffers)
        ]  # fmt: skip
        if STATE.mode is not None:
            before = [each.detach().clone() for each in averages]
            self._average(averages, current)
            for kept, old, new in zip(averages, before, current):
                first = new if kept.dtype is old.dtype else new.to(old.dtype)
                kept.detach().copy_(where(self.n_averaged == 0, first, kept))
        elif self.n_averaged == 0:
            for kept, new in zip(averages, current):
                kept.detach().copy_(new)
        else:
            self._average(averages, current)
        if not self.use_buffers:
            for kept, new in zip(self.module.buffers(), model.buffers()):
                kept.detach().copy_(new.detach())
        self.n_averaged += 1

    def _average(self, averages: list[Tensor], current: list[Tensor]) -> None:
        kept = [each.detach() for each in averages]
        if self.multi_avg_fn is None and self.avg_fn is not None:
            for old, new in zip(kept, current):
                old.copy_(self.avg_fn(old, new, self.n_averaged))
            return
        update = self.multi_avg_fn or get_swa_multi_avg_fn()
        update(kept, current, self.n_averaged)


def _weights(module: Module, buffers: bool) -> Iterator[Tensor]:
    return chain(module.parameters(), module.buffers() if buffers else ())


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of `model`'s batch normalisations anew, as means over the
    batches of `loader` (of a list or tuple the first item is the input)."""
    layers = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    was_training = model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a mean of all batches
    for batch in loader:
        inputs = batch[0] if isinstance(batch, list | tuple) else batch
        model(inputs if device is None else inputs.to(device))
    for layer, momentum in zip(layers, momenta):
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the learning rates as they are to `swa_lr` (one, or one for each group) in
    `anneal_epochs` steps, along half a cosine ("cos") or a line ("linear"), and there from then on.

    Raises ValueError for another strategy, fewer than 0 epochs, or a wrong number of rates.
    """

    def __init__(
        self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: int = 10,
        anneal_strategy: str = "cos", last_epoch: int = -1,
    ):  # fmt: skip
        groups = optimizer.param_groups
        rates = [*swa_lr] if isinstance(swa_lr, list | tuple) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(
                "swa_lr must have the same length as optimizer.param_groups: swa_lr has "
                f"{len(rates)}, optimizer.param_groups has {len(groups)}"
            )
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError("anneal_strategy must by one of 'cos' or 'linear', instead got "
                             f"{anneal_strategy}")  # fmt: skip
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for group, rate in zip(groups, rates):
            group["swa_lr"] = rate
        self.anneal_epochs = anneal_epochs
        self._strategy = anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """How far the way to `swa_lr` is gone at a step."""
        way = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return way if self._strategy == "linear" else (1 - math.cos(math.pi * way)) / 2

    def get_lr(self) -> list[Any]:
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            goal, rate = group["swa_lr"], group["lr"]
            # The rate that annealing began with: a scheduler beside this one may have changed it.
            start = goal if before == 1 else (rate - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates

"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from frontend import tracer
from frontend.dtypes import float32
from frontend.optim.optimizer import Group, Optimizer, option
from frontend.tensor import Tensor


class SGD(Optimizer):
    """p -= lr · d, where d is the gradient plus weight_decay · p; with momentum,
    buffer = momentum · buffer + (1 - dampening) · d takes the place of d (Nesterov:
    d + momentum · buffer). The first step puts d itself into the buffer.

    State: `momentum_buffer`, and with dampening `step`. Raises ValueError for impossible options.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ):
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize,
        })  # fmt: skip

    def _update(self, group: Group, params: list[Tensor]) -> None:
        lr = tracer.host_value(group, "lr")
        momentum, dampening = option(group, "momentum"), option(group, "dampening")
        weight_decay, nesterov = option(group, "weight_decay"), option(group, "nesterov")
        maximize = option(group, "maximize")
        for params_together, share in self._shares(params, momentum, dampening):
            for p in params_together:
                change = -p.grad if maximize else p.grad
                if weight_decay:
                    change = change + p * weight_decay
                if momentum:
                    buffer = self._buffer(p, "momentum_buffer")
                    buffer.mul_(momentum).add_(change if share is None else change * share)
                    change = change + buffer * momentum if nesterov else buffer
                p.sub_(change * lr)

    def _shares(
        self, params: list[Tensor], momentum: float, dampening: float
    ) -> list[tuple[list[Tensor], Tensor | None]]:
        """How much of the change enters the momentum, and for which parameters; None is all.

        A buffer starts at 0, so without dampening the first step needs no case of its own. With it
        the share is 1 at step 0 and 1 - dampening later: a tensor, so that no trace depends on it.
        """
        if not momentum or not dampening:
            return [(params, None)]
        shares: list[tuple[list[Tensor], Tensor | None]] = []
        for step, members in self._clocks(params, self._steps_taken):
            shares.append((members, 1 - (step > 0).to(float32) * dampening))
            step.add_(1)
        return shares

    def _steps_taken(self, p: Tensor) -> float:
        """The count a parameter without one starts from: 1 where a buffer was loaded for it."""
        return 0.0 if self.state[p].get("momentum_buffer") is None else 1.0

"""RMSprop (Hinton, lecture 6e, 2012)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.optim.groups import ParameterGroup
from frontend.optim.optimizer import Optimizer
from frontend.optim.options import check_options, execution_options


class RMSprop(Optimizer):
    """s = alpha · s + (1-alpha) · g², p -= lr · g / (√s + eps), where g is the gradient plus
    weight_decay · p; `centered` takes the square of the mean gradient off s; with momentum the
    quotient enters a buffer = momentum · buffer + quotient first.

    State: `step`, `square_avg`, `grad_avg` (centered), `momentum_buffer`. Raises ValueError for
    impossible options.
    """

    numbers = ("lr", "alpha")
    optional = ("momentum", "weight_decay")
    shaped = frozenset(["square_avg", "grad_avg", "momentum_buffer"])

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        check_options(lr, eps, weight_decay=weight_decay)
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if alpha < 0.0:
            raise ValueError(f"Invalid alpha value: {alpha}")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "maximize": maximize,
            **execution_options(
                capturable=capturable, foreach=foreach, differentiable=differentiable
            ),
        })  # fmt: skip

    def _update(self, group: ParameterGroup, params: list[Tensor]) -> None:
        o = self.read(group)
        for step, members in self._clocks(params):
            step.add_(1)
            for p in members:
                g = self._gradient(o, p)
                square = self._buffer(p, "square_avg")
                moved = None if o.momentum is None else self._buffer(p, "momentum_buffer")
                square.mul_(o.alpha).add_(g * g * (1 - o.alpha))
                if o.centered:
                    mean = self._buffer(p, "grad_avg")
                    mean.add_((g - mean) * (1 - o.alpha))
                    size = (square - mean * mean).sqrt() + o.eps
                else:
                    size = square.sqrt() + o.eps
                change = g / size
                if moved is not None:
                    change = moved.mul_(o.momentum).add_(change)
                p.sub_(change * o.lr)

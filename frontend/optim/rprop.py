"""Rprop: resilient backpropagation (Riedmiller, Braun, 1993)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.pointwise import where
from frontend.optim.groups import ParameterGroup
from frontend.optim.optimizer import Optimizer
from frontend.optim.options import check_options, execution_options, number_now


class Rprop(Optimizer):
    """p -= sign(g) · s, each element with a step size s of its own, which starts at `lr`: times
    `etas[1]` where g has the sign it had the step before, times `etas[0]` where that has changed,
    and kept within `step_sizes`. Where it has changed, the element stays, and the next step takes
    its s as it is. `lr` is read when the state is made.

    State: `step`, `prev` (g, 0 where the sign has changed), `step_size`. Raises ValueError for
    impossible options.
    """

    numbers = ("lr", "etas", "step_sizes")
    shaped = frozenset(["prev", "step_size"])

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        check_options(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes,
            **execution_options(foreach=foreach), "maximize": maximize,
            **execution_options(differentiable=differentiable, capturable=capturable),
        })  # fmt: skip

    def _update(self, group: ParameterGroup, params: list[Tensor]) -> None:
        o = self.read(group)
        (shrink, grow), (least, greatest) = o.etas, o.step_sizes
        for step, members in self._clocks(params):
            step.add_(1)
            for p in members:
                self._begin(p)
                g = -p.grad if o.maximize else p.grad
                before = self._buffer(p, "prev")
                size = self._buffer(p, "step_size", number_now(group, "lr"))
                turn = (g * before).sign()
                factor = where(turn > 0, grow, where(turn < 0, shrink, 1 - turn))
                size.mul_(factor).clamp_(least, greatest)
                g = where(turn < 0, 0, g)
                p.sub_(g.sign() * size)
                before.copy_(g)

"""ASGD: averaged stochastic gradient descent (Polyak, Juditsky, 1992)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from frontend.engine.tensors.dtypes import float32, float64
from frontend.engine.tensors.state import suspended
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import ones, zeros
from frontend.functions.pointwise import where
from frontend.optim.groups import ParameterGroup
from frontend.optim.optimizer import Optimizer
from frontend.optim.options import check_options, execution_options, number_now


class ASGD(Optimizer):
    """p = (1 - lambd · η) p - η · g and ax += μ (p - ax), where g is the gradient plus
    weight_decay · p; then η = lr / (1 + lambd · lr · t)^alpha and μ = 1 / max(1, t - t0). The first
    step takes η = lr and μ = 1: the average `ax` is p until t0 steps are taken, and is the mean of
    what comes after.

    State: `step`, `eta`, `mu`, `ax`. Raises ValueError for impossible options.
    """

    numbers = ("lr", "lambd", "alpha", "t0")
    optional = ("weight_decay",)
    shaped = frozenset(["ax"])

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ):
        check_options(lr, weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            **execution_options(foreach=foreach), "maximize": maximize,
            **execution_options(differentiable=differentiable, capturable=capturable),
        })  # fmt: skip

    def _rates(self, group: ParameterGroup, p: Tensor) -> tuple[Tensor, Tensor]:
        """η and μ of p, 0-d f32: at first lr and 1."""
        state = self.state[p]
        if state.get("eta") is None:
            with suspended():
                state["eta"] = zeros((), dtype=float32) + number_now(group, "lr")
        if state.get("mu") is None:
            with suspended():
                state["mu"] = ones((), dtype=float32)
        return state["eta"], state["mu"]

    def _update(self, group: ParameterGroup, params: list[Tensor]) -> None:
        o = self.read(group)
        for step, members in self._clocks(params):
            step.add_(1)
            time = step.to(float64)
            then = o.lr / (1 + o.lambd * o.lr * time) ** o.alpha
            share = 1 / (time - o.t0).clamp(min=1)
            for p in members:
                g = self._gradient(o, p)
                eta, mu = self._rates(group, p)
                mean, rate = self._buffer(p, "ax"), eta.to(float64)
                p.mul_(1 - o.lambd * rate).sub_(g * rate)
                # Where μ is 1 the average is p to the last bit, infinite or not.
                mean.copy_(where(mu == 1, p, mean + (p - mean) * mu))
                eta.copy_(then)
                mu.copy_(share)

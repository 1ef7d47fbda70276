"""Adafactor: adaptive steps with factored second moments (N. Shazeer and M. Stern, "Adafactor:
Adaptive learning rates with sublinear memory cost", 2018)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from frontend.engine.tensors.state import suspended
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import zeros
from frontend.functions.matrix import matmul
from frontend.functions.pointwise import minimum
from frontend.functions.statistics import mean
from frontend.functions.unary import rsqrt, sqrt
from frontend.optim.groups import ParameterGroup
from frontend.optim.optimizer import Optimizer
from frontend.optim.options import execution_options


class Adafactor(Optimizer):
    """p -= α · u / max(1, RMS(u) / d), with u = g / √v and α = max(ε₂, RMS(p)) · min(lr, 1/√t).

    v is a running mean of g² that forgets by t^`beta2_decay`: of a vector its own; of matrices (the
    last two dimensions) the product of the means of rows and columns. `eps` = (ε₁, ε₂), where ε₁
    (by default the dtype's epsilon) is the least √v.

    State: `step`, and `variance`, or `row_var` and `col_var`. Raises ValueError for impossible
    options."""

    shaped = frozenset(["variance"])
    numbers = ("lr",)

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0,
        *, foreach: bool | None = None, maximize: bool = False,
    ):  # fmt: skip
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
            "weight_decay": weight_decay, **execution_options(foreach=foreach),
            "maximize": maximize,
        })  # fmt: skip

    def _update(self, group: ParameterGroup, params: list[Tensor]) -> None:
        o = self.read(group)
        for step, members in self._clocks(params):
            step.add_(1)
            forget = step**o.beta2_decay
            rate = minimum(rsqrt(step), step * 0 + o.lr)
            for p in members:
                g = -p.grad if o.maximize else p.grad
                kind = p.dtype
                size = _rms(p).clamp(min=o.eps[1]) * rate.to(kind)
                if o.weight_decay:
                    p.mul_(1 - o.lr * o.weight_decay)
                least = float(np.finfo(kind.numpy).eps) if o.eps[0] is None else o.eps[0]
                moment = self._moment(p, g, forget.to(kind), least)
                update = rsqrt(moment.clamp(min=least * least)) * g
                p.sub_(update * (size / (_rms(update) / o.d).clamp(min=1.0)))

    def _moment(self, p: Tensor, g: Tensor, forget: Tensor, least: float) -> Tensor:
        """The running mean of g², after it has taken g in."""
        if g.dim() < 2:
            whole = self._buffer(p, "variance")
            return whole.copy_(whole + (g * g - whole) * forget)
        rows = self._factor(p, "row_var", -1)
        columns = self._factor(p, "col_var", -2)
        square = g * g
        rows.copy_(rows + (mean(square, -1, keepdim=True) - rows) * forget)
        columns.copy_(columns + (mean(square, -2, keepdim=True) - columns) * forget)
        return matmul(rows, columns) / mean(rows, -2, keepdim=True).clamp(min=least)

    def _factor(self, p: Tensor, name: str, dim: int) -> Tensor:
        """The state `name` of p: zeros in its shape, with one element along `dim`."""
        state = self.state[p]
        if state.get(name) is None:
            shape = list(p.shape)
            shape[dim] = 1
            with suspended():
                state[name] = zeros(shape, dtype=p.dtype)
        factor: Tensor = state[name]
        return factor


def _rms(x: Tensor) -> Tensor:
    """The root of the mean square, 0-d."""
    return sqrt((x * x).sum()) / math.sqrt(max(x.numel(), 1))

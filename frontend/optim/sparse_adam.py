"""Adam for gradients of a few rows: Adam (Kingma, Ba, 2015) of the rows that a gradient has, where
the others, and their momenta, stay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from frontend.engine.tensors.dtypes import float64
from frontend.engine.tensors.tensor import Tensor
from frontend.optim.groups import ParameterGroup
from frontend.optim.optimizer import Optimizer
from frontend.optim.options import check_options


class SparseAdam(Optimizer):
    """Of the rows that the gradient g has: m += (1-β₁)(g - m), v += (1-β₂)(g² - v) and
    p -= lr · √(1-β₂ᵗ) / (1-β₁ᵗ) · m / (√v + eps), where t counts all steps of p.

    State: `step`, `exp_avg`, `exp_avg_sq`. Raises ValueError for impossible options and sparse
    parameters; a step raises RuntimeError for a dense gradient.
    """

    numbers = ("lr", "betas")
    shaped = frozenset(["exp_avg", "exp_avg_sq"])
    takes = "sparse"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ):
        check_options(lr, eps, betas)
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        options = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        super().__init__(params, options)
        sparse = [
            [number, position]
            for number, group in enumerate(self.param_groups)
            for position, p in enumerate(group["params"])
            if p.is_sparse
        ]
        if sparse:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors"
            )

    def _update(self, group: ParameterGroup, params: list[Tensor]) -> None:
        from frontend.sparse.gradients import rows_at, set_rows, summed

        o = self.read(group)
        beta1, beta2 = o.betas
        for step, members in self._clocks(params):
            step.add_(1)
            time = step.to(float64)
            size = (1 - beta2**time).sqrt() / (1 - beta1**time) * o.lr
            for p in members:
                self._begin(p)
                rows, g = summed(p.grad)
                g = -g if o.maximize else g
                mean, square = self._buffer(p, "exp_avg"), self._buffer(p, "exp_avg_sq")
                m, v = rows_at(mean, rows), rows_at(square, rows)
                m = m + (g - m) * (1 - beta1)
                v = v + (g * g - v) * (1 - beta2)
                set_rows(mean, rows, m)
                set_rows(square, rows, v)
                set_rows(p, rows, rows_at(p, rows) - m / (v.sqrt() + o.eps) * size)

    def _saved_state(self, held: Mapping[str, Any]) -> dict[str, Any]:
        return {name: int(x) if name == "step" else x for name, x in held.items()}

"""Adagrad (Duchi, Hazan, Singer, 2011) and Adadelta (Zeiler, 2012)."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from frontend.engine.tensors.dtypes import float64
from frontend.engine.tensors.tensor import Tensor
from frontend.optim.groups import ParameterGroup
from frontend.optim.optimizer import Optimizer
from frontend.optim.options import check_options, execution_options, number_now


class Adagrad(Optimizer):
    """s += g², p -= lr / (1 + (t-1) · lr_decay) · g / (√s + eps), where g is the gradient plus
    weight_decay · p and s starts at `initial_accumulator_value`.

    State: `step`, `sum`. Raises ValueError for impossible options.
    """

    optional = ("lr_decay", "weight_decay")
    shaped = frozenset(["sum"])
    takes = "both"

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        check_options(lr, eps, weight_decay=weight_decay)
        if lr_decay < 0.0:
            raise ValueError(f"Invalid lr_decay value: {lr_decay}")
        if initial_accumulator_value < 0.0:
            raise ValueError(
                f"Invalid initial_accumulator_value value: {initial_accumulator_value}"
            )
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            **execution_options(foreach=foreach), "maximize": maximize,
            **execution_options(differentiable=differentiable, fused=fused),
        })  # fmt: skip
        for group in self.param_groups:
            self._clocks(group["params"])
            for p in group["params"]:
                self._buffer(p, "sum", group["initial_accumulator_value"])

    def _update(self, group: ParameterGroup, params: list[Tensor]) -> None:
        o = self.read(group)
        for step, members in self._clocks(params):
            step.add_(1)
            rate = o.lr
            if o.lr_decay is not None:
                rate = o.lr / (1 + (step.to(float64) - 1) * o.lr_decay)
            for p in members:
                total = self._buffer(p, "sum", o.initial_accumulator_value)
                if p.grad.is_sparse:
                    self._change_rows(o, p, total, rate)
                    continue
                g = self._gradient(o, p)
                total.add_(g * g)
                p.sub_(g / (total.sqrt() + o.eps) * rate)

    def _change_rows(self, o: SimpleNamespace, p: Tensor, total: Tensor, rate: Any) -> None:
        """The step of the rows that a sparse gradient has: the others stay."""
        from frontend.sparse.gradients import rows_at, set_rows, summed

        self._begin(p)
        rows, g = summed(p.grad)
        g = -g if o.maximize else g
        sums = rows_at(total, rows) + g * g
        set_rows(total, rows, sums)
        set_rows(p, rows, rows_at(p, rows) - g / (sums.sqrt() + o.eps) * rate)

    def _check_sparse(self, group: ParameterGroup) -> None:
        if number_now(group, "weight_decay") != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")


class Adadelta(Optimizer):
    """s = rho · s + (1-rho) · g², d = √(a + eps) / √(s + eps) · g, a = rho · a + (1-rho) · d²,
    p -= lr · d, where g is the gradient plus weight_decay · p.

    State: `step`, `square_avg`, `acc_delta`. Raises ValueError for impossible options.
    """

    numbers = ("lr", "rho")
    optional = ("weight_decay",)
    shaped = frozenset(["square_avg", "acc_delta"])

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        check_options(lr, eps, weight_decay=weight_decay)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
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
                square, moved = self._buffer(p, "square_avg"), self._buffer(p, "acc_delta")
                square.mul_(o.rho).add_(g * g * (1 - o.rho))
                change = (moved + o.eps).sqrt() / (square + o.eps).sqrt() * g
                moved.mul_(o.rho).add_(change * change * (1 - o.rho))
                p.sub_(change * o.lr)

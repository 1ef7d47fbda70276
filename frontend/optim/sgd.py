"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from frontend.engine.eager.fused import Fused
from frontend.engine.tensors.dtypes import float64
from frontend.engine.tensors.tensor import Tensor
from frontend.optim.groups import ParameterGroup
from frontend.optim.optimizer import Optimizer, decayed
from frontend.optim.options import check_options, execution_options, number_now


class SGD(Optimizer):
    """p -= lr · d, where d is the gradient plus weight_decay · p; with momentum,
    buffer = momentum · buffer + (1 - dampening) · d takes the place of d (Nesterov:
    d + momentum · buffer). The first step puts d itself into the buffer.

    State: `momentum_buffer`, and with dampening `step`, which state dicts leave out: there it is
    enough to know whether there is a buffer. Raises ValueError for impossible options.
    """

    optional = ("momentum", "dampening", "weight_decay")
    shaped = frozenset(["momentum_buffer"])
    takes = "both"

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
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        check_options(lr, weight_decay=weight_decay)
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
            "nesterov": nesterov, "maximize": maximize,
            **execution_options(foreach=foreach, differentiable=differentiable, fused=fused),
        })  # fmt: skip

    def _update(self, group: ParameterGroup, params: list[Tensor]) -> None:
        o = self.read(group)
        for params_together, share in self._shares(params, o.momentum, o.dampening):
            numbers = [o.lr]
            if o.momentum is not None:
                numbers += [o.momentum] if share is None else [o.momentum, share]
            for p in params_together:
                self._begin(p)
                if o.momentum is None and p.grad.is_sparse:
                    self._change_rows(o, p)
                    continue
                held = [] if o.momentum is None else [self._buffer(p, "momentum_buffer")]
                self._change(_sgd, o, p, held, numbers, moves=o.momentum is not None,
                             dampened=share is not None, nesterov=bool(o.nesterov))  # fmt: skip

    def _change_rows(self, o: SimpleNamespace, p: Tensor) -> None:
        """The step of the rows that a sparse gradient has: the others stay without momentum."""
        from frontend.sparse.gradients import rows_at, set_rows, summed

        rows, change = summed(p.grad)
        set_rows(p, rows, rows_at(p, rows) - (-change if o.maximize else change) * o.lr)

    def _check_sparse(self, group: ParameterGroup) -> None:
        if number_now(group, "weight_decay") != 0:
            raise RuntimeError(
                "add(sparse, dense) is not supported. Use add(dense, sparse) instead."
            )

    def _shares(
        self, params: list[Tensor], momentum: Any, dampening: Any
    ) -> list[tuple[list[Tensor], Tensor | None]]:
        """How much of the change enters the momentum, and for which parameters; None is all.

        A buffer starts at 0, so without dampening the first step needs no case of its own. With it
        the share is 1 at step 0 and 1 - dampening later: a tensor, so that no trace depends on it.
        """
        if momentum is None or dampening is None:
            return [(params, None)]
        shares: list[tuple[list[Tensor], Tensor | None]] = []
        for step, members in self._clocks(params, self._steps_taken):
            shares.append((members, 1 - (step > 0).to(float64) * dampening))
            step.add_(1)
        return shares

    def _steps_taken(self, p: Tensor) -> float:
        """The count a parameter without one starts from: 1 where a buffer was loaded for it."""
        return 0.0 if self.state[p].get("momentum_buffer") is None else 1.0

    def _saved_state(self, held: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in held.items() if name != "step"}


@Fused
def _sgd(
    p: Any, *rest: Any, moves: bool, dampened: bool, nesterov: bool, **decay: Any
) -> tuple[Any, ...]:
    buffer, rest = (rest[0], rest[1:]) if moves else (None, rest)
    change, lr, *by = rest
    if not moves:
        p, change = decayed(p, change, by, **decay)
        return (p - change * lr,)
    momentum, by = by[0], by[1:]
    share, by = (by[0], by[1:]) if dampened else (None, by)
    p, change = decayed(p, change, by, **decay)
    buffer = buffer * momentum + (change if share is None else change * share)
    change = change + buffer * momentum if nesterov else buffer
    return p - change * lr, buffer

"""Adam (Kingma, Ba, 2015) and AdamW (Loshchilov, Hutter, 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from frontend.engine.eager.fused import Fused
from frontend.engine.tensors.dtypes import float64
from frontend.engine.tensors.tensor import Tensor
from frontend.optim.groups import ParameterGroup
from frontend.optim.optimizer import Optimizer, decayed
from frontend.optim.options import check_options, execution_options
from graphc.ops.elementwise import maximum, sqrt


class Adam(Optimizer):
    """m = β₁m + (1-β₁)g, v = β₂v + (1-β₂)g², p -= lr · m̂ / (√v̂ + eps), where m̂ and v̂ are m and v
    over 1-βᵗ; g is the gradient plus weight_decay · p. `amsgrad` uses the greatest v so far.

    State: `step`, `exp_avg`, `exp_avg_sq`, and with amsgrad `max_exp_avg_sq`. Raises ValueError
    for impossible options.
    """

    numbers = ("lr", "betas")
    optional = ("weight_decay",)
    shaped = frozenset(["exp_avg", "exp_avg_sq", "max_exp_avg_sq"])

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ):
        check_options(lr, eps, betas, weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "amsgrad": amsgrad, "maximize": maximize,
            **execution_options(
                foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused
            ),
            "decoupled_weight_decay": decoupled_weight_decay,
        })  # fmt: skip

    def _check_sparse(self, group: ParameterGroup) -> None:
        raise RuntimeError(
            "Adam does not support sparse gradients, please consider SparseAdam instead"
        )

    def _update(self, group: ParameterGroup, params: list[Tensor]) -> None:
        o = self.read(group)
        beta1, beta2 = o.betas
        for step, members in self._clocks(params):
            step.add_(1)
            # lr · m/c₁ / (√v/√c₂ + eps) = (lr·√c₂/c₁) · m / (√v + eps·√c₂), c = 1 - βᵗ: the
            # factors are 0-d, so each element takes one product, one sum and one quotient.
            time = step.to(float64)
            root = (1 - beta2**time).sqrt()
            size, floor = root / (1 - beta1**time) * o.lr, root * o.eps
            names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")[: 3 if o.amsgrad else 2]
            numbers = (beta1, 1 - beta1, beta2, 1 - beta2, size, floor)
            for p in members:
                self._begin(p)
                held = [self._buffer(p, name) for name in names]
                self._change(_adam, o, p, held, numbers, greatest=bool(o.amsgrad))


@Fused
def _adam(p: Any, m: Any, v: Any, *rest: Any, greatest: bool, **decay: Any) -> tuple[Any, ...]:
    most, rest = (rest[0], rest[1:]) if greatest else (None, rest)
    g, beta1, share1, beta2, share2, size, floor, *by = rest
    p, g = decayed(p, g, by, **decay)
    m = m * beta1 + g * share1
    v = v * beta2 + g * g * share2
    if most is None:
        return p - m * size / (sqrt(v) + floor), m, v
    most = maximum(most, v)
    return p - m * size / (sqrt(most) + floor), m, v, most


class AdamW(Adam):
    """Adam with decoupled weight decay: p shrinks by lr · weight_decay · p before the step."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
            decoupled_weight_decay=True,
        )  # fmt: skip

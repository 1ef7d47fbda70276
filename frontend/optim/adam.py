"""Adam (Kingma, Ba, 2015) and AdamW (Loshchilov, Hutter, 2019)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from frontend.functions.pointwise import maximum
from frontend.optim.groups import ParameterGroup
from frontend.optim.optimizer import Optimizer
from frontend.optim.options import check_options, execution_options
from frontend.tensors.dtypes import float64
from frontend.tensors.tensor import Tensor


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
            for p in members:
                g = self._gradient(o, p)
                m, v = self._buffer(p, "exp_avg"), self._buffer(p, "exp_avg_sq")
                m.mul_(beta1).add_(g * (1 - beta1))
                v.mul_(beta2).add_(g * g * (1 - beta2))
                if o.amsgrad:
                    greatest = self._buffer(p, "max_exp_avg_sq")
                    v = greatest.copy_(maximum(greatest, v))
                p.sub_(m * size / (v.sqrt() + floor))


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

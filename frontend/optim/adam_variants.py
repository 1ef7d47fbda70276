"""Adamax (Kingma, Ba, 2015), NAdam (Dozat, 2016) and RAdam (Liu et al., 2020)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from frontend.engine.tensors.dtypes import float32, float64
from frontend.engine.tensors.state import suspended
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import ones
from frontend.functions.pointwise import maximum, where
from frontend.optim.groups import ParameterGroup
from frontend.optim.optimizer import Optimizer
from frontend.optim.options import check_options, execution_options


class _OfMoments(Optimizer):
    """What the variants of Adam share."""

    numbers = ("lr", "betas")
    optional = ("weight_decay",)
    shaped = frozenset(["exp_avg", "exp_avg_sq", "exp_inf"])


class Adamax(_OfMoments):
    """m = β₁m + (1-β₁)g, u = max(β₂u, |g| + eps), p -= lr / (1-β₁ᵗ) · m / u.

    State: `step`, `exp_avg`, `exp_inf`. Raises ValueError for impossible options.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ):
        check_options(lr, eps, betas, weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            **execution_options(foreach=foreach), "maximize": maximize,
            **execution_options(differentiable=differentiable, capturable=capturable),
        })  # fmt: skip

    def _update(self, group: ParameterGroup, params: list[Tensor]) -> None:
        o = self.read(group)
        beta1, beta2 = o.betas
        for step, members in self._clocks(params):
            step.add_(1)
            rate = o.lr / (1 - beta1 ** step.to(float64))
            for p in members:
                g = self._gradient(o, p)
                m, u = self._buffer(p, "exp_avg"), self._buffer(p, "exp_inf")
                m.add_((g - m) * (1 - beta1))
                u.copy_(maximum(u * beta2, g.abs() + o.eps))
                p.sub_(m / u * rate)


class NAdam(_OfMoments):
    """Adam with Nesterov momentum: μₜ = β₁ (1 - 0.96^(t·momentum_decay) / 2), P = μ₁…μₜ,
    p -= lr (1-μₜ)/(1-P) · g/s + lr μₜ₊₁/(1-P μₜ₊₁) · m/s, s = √(v/(1-β₂ᵗ)) + eps.

    State: `step`, `mu_product`, `exp_avg`, `exp_avg_sq`. Raises ValueError for impossible options.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ):
        check_options(lr, eps, betas, weight_decay)
        if momentum_decay < 0.0:
            raise ValueError(f"Invalid momentum_decay value: {momentum_decay}")
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            **execution_options(
                foreach=foreach, capturable=capturable, differentiable=differentiable
            ),
        })  # fmt: skip

    def _product(self, p: Tensor) -> Tensor:
        """The product of the momenta so far, 0-d f32."""
        state = self.state[p]
        if state.get("mu_product") is None:
            with suspended():
                state["mu_product"] = ones((), dtype=float32)
        return state["mu_product"]

    def _update(self, group: ParameterGroup, params: list[Tensor]) -> None:
        o = self.read(group)
        beta1, beta2 = o.betas
        for step, members in self._clocks(params):
            step.add_(1)
            time = step.to(float64)
            root = (1 - beta2**time).sqrt()
            now = beta1 * (1 - 0.5 * 0.96 ** (time * o.momentum_decay))
            then = beta1 * (1 - 0.5 * 0.96 ** ((time + 1) * o.momentum_decay))
            for p in members:
                g = self._gradient(o, p)
                product = self._product(p)
                product.mul_(now.to(float32))
                passed = product.to(float64)
                m, v = self._buffer(p, "exp_avg"), self._buffer(p, "exp_avg_sq")
                m.add_((g - m) * (1 - beta1))
                v.mul_(beta2).add_(g * g * (1 - beta2))
                size = v.sqrt() / root + o.eps
                p.sub_(g / size * (o.lr * (1 - now) / (1 - passed)))
                p.sub_(m / size * (o.lr * then / (1 - passed * then)))


class RAdam(_OfMoments):
    """Adam whose adaptive part waits until its variance can be known: with ρ∞ = 2/(1-β₂) - 1 and
    ρₜ = ρ∞ - 2tβ₂ᵗ/(1-β₂ᵗ), p -= lr · m̂ · rₜ √(1-β₂ᵗ) / (√v + eps) where ρₜ > 5, else lr · m̂.

    State: `step`, `exp_avg`, `exp_avg_sq`. Raises ValueError for impossible options.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ):
        check_options(lr, eps, betas, weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "maximize": maximize, **execution_options(foreach=foreach, capturable=capturable),
            "decoupled_weight_decay": decoupled_weight_decay,
            **execution_options(differentiable=differentiable),
        })  # fmt: skip

    def _update(self, group: ParameterGroup, params: list[Tensor]) -> None:
        o = self.read(group)
        beta1, beta2 = o.betas
        limit = 2 / (1 - beta2) - 1
        for step, members in self._clocks(params):
            step.add_(1)
            time = step.to(float64)
            first, second = 1 - beta1**time, 1 - beta2**time
            length = limit - 2 * time * beta2**time / second
            known = length > 5
            # Where the length is not known the quotient below may be negative: 1 stands for it.
            quotient = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            factor = where(known, quotient, 1.0).sqrt() * second.sqrt()
            for p in members:
                g = self._gradient(o, p)
                m, v = self._buffer(p, "exp_avg"), self._buffer(p, "exp_avg_sq")
                m.add_((g - m) * (1 - beta1))
                v.mul_(beta2).add_(g * g * (1 - beta2))
                plain = m * (o.lr / first)
                p.sub_(where(known, plain / (v.sqrt() + o.eps) * factor, plain))

"""Muon: momentum, made orthogonal (K. Jordan, "Muon: An optimizer for hidden layers in neural
networks", 2024; J. Liu and others, "Muon is scalable for LLM training", 2025)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.layout import transpose
from frontend.functions.matrix import matmul
from frontend.functions.unary import sqrt
from frontend.optim.groups import ParameterGroup
from frontend.optim.optimizer import Optimizer
from graphc.ir.types import DType


class Muon(Optimizer):
    """p -= lr · c · O, with O the momentum of the gradient (Nesterov's) after `ns_steps` steps of
    Newton and Schulz's iteration in bfloat16 with `ns_coefficients`, which brings its singular
    values near 1. c is √max(1, rows / columns), or 0.2 · √max(rows, columns) with
    `adjust_lr_fn="match_rms_adamw"`. Weight decay is decoupled.

    For the matrices of hidden layers only. State: `momentum_buffer`. Raises ValueError for
    parameters that are no matrices, and for impossible options."""

    numbers = ("lr", "momentum")
    optional = ("weight_decay",)
    shaped = frozenset(["momentum_buffer"])

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.1,
        momentum: float = 0.95, nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ):  # fmt: skip
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        if len(ns_coefficients) != 3:
            raise ValueError("Coefficients must be a tuple of exactly 3 values")
        if ns_steps >= 100:
            raise ValueError("Number of steps must be less than 100 for computational efficiency")
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        })  # fmt: skip
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{p.size()}"
                    )

    def _update(self, group: ParameterGroup, params: list[Tensor]) -> None:
        o = self.read(group)
        for p in params:
            buffer = self._buffer(p, "momentum_buffer")
            buffer.copy_(buffer + (p.grad - buffer) * (1 - o.momentum))
            g = p.grad + (buffer - p.grad) * o.momentum if o.nesterov else buffer
            direction = orthogonal(g, o.ns_coefficients, o.ns_steps, o.eps).to(p.dtype)
            if o.weight_decay is not None:
                p.mul_(1 - o.lr * o.weight_decay)
            p.sub_(direction * (o.lr * _scale(o.adjust_lr_fn, *p.shape)))


def _scale(name: str | None, rows: int, columns: int) -> float:
    if name == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))


def orthogonal(
    g: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """A matrix with the singular vectors of `g` and singular values near 1, in bfloat16: x becomes
    a·x + (b·G + c·G²)·x, with G = x·xᵀ, that many times."""
    a, b, c = coefficients
    tall = g.shape[0] > g.shape[1]
    x = g.to(DType.bf16)
    x = transpose(x, 0, 1) if tall else x
    x = x / sqrt((x * x).sum()).clamp(min=eps)
    for _ in range(steps):
        gram = matmul(x, transpose(x, 0, 1))
        x = x * a + matmul(gram * b + matmul(gram, gram) * c, x)
    return transpose(x, 0, 1) if tall else x

"""Activations with their options and definitions. `tests/frontend/nn` holds each to its definition
in float64 and to numeric gradients, `tests/frontend/peers` to PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Activation:
    """A layer of `torch.nn` by its name, with options; what it computes in evaluation mode."""

    layer: str
    options: dict[str, Any]
    definition: Callable[[Array], Array]

    def __str__(self) -> str:
        return f"{self.layer}-{self.options}"

    def make(self, nn: Any) -> Any:
        """The layer, of either system's `nn`, in evaluation mode."""
        return getattr(nn, self.layer)(**self.options).eval()


def log1p_exp(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def sigmoid(x: Array) -> Array:
    return np.exp(-log1p_exp(-x))


def leaky_relu(x: Array, negative_slope: float = 0.01) -> Array:
    return np.where(x > 0, x, negative_slope * x)


def elu(x: Array, alpha: float = 1.0, rate: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) * rate))


def gelu(x: Array, approximate: str = "none") -> Array:
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
        return x * (1 + np.tanh(inner)) / 2
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return np.where(x * beta > threshold, x, log1p_exp(beta * x) / beta)


def softshrink(x: Array, lambd: float = 0.5) -> Array:
    return np.sign(x) * np.maximum(abs(x) - lambd, 0)


def hardshrink(x: Array, lambd: float = 0.5) -> Array:
    return np.where(abs(x) > lambd, x, 0)


DEFINITIONS: dict[str, tuple[Callable[..., Array], list[dict[str, Any]]]] = {
    "ReLU": (lambda x: np.maximum(x, 0), [{}]),
    "LeakyReLU": (leaky_relu, [{}, {"negative_slope": 0.3}, {"negative_slope": -0.5}]),
    "ELU": (elu, [{}, {"alpha": 1.7}]),
    "SELU": (lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772), [{}]),
    "CELU": (lambda x, alpha=1.0: elu(x, alpha, 1 / alpha), [{}, {"alpha": 0.4}]),
    "GELU": (gelu, [{}, {"approximate": "tanh"}]),
    "SiLU": (lambda x: x * sigmoid(x), [{}]),
    "Mish": (lambda x: x * np.tanh(log1p_exp(x)), [{}]),
    "Sigmoid": (sigmoid, [{}]),
    "LogSigmoid": (lambda x: -log1p_exp(-x), [{}]),
    "Tanh": (np.tanh, [{}]),
    "Tanhshrink": (lambda x: x - np.tanh(x), [{}]),
    "Softplus": (
        softplus,
        [{}, {"beta": 2.5, "threshold": 3.0}, {"beta": 2, "threshold": 50.0}, {"threshold": -1e9}],
    ),
    "Softshrink": (softshrink, [{}, {"lambd": 1.2}, {"lambd": 0.0}]),
    "Hardshrink": (hardshrink, [{}, {"lambd": 1.2}]),
    "Softsign": (lambda x: x / (1 + abs(x)), [{}]),
    "Hardtanh": (
        lambda x, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val),
        [{}, {"min_val": -0.3, "max_val": 2.0}],
    ),
    "Hardswish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, [{}]),
    "Hardsigmoid": (lambda x: np.clip(x + 3, 0, 6) / 6, [{}]),
    "ReLU6": (lambda x: np.clip(x, 0, 6), [{}]),
    "Threshold": (
        lambda x, threshold, value: np.where(x > threshold, x, value),
        [{"threshold": 0.5, "value": -2.0}],
    ),
    "RReLU": (
        lambda x, lower=1 / 8, upper=1 / 3: leaky_relu(x, (lower + upper) / 2),
        [{}, {"lower": 0.1, "upper": 0.9}],
    ),
}


CANCELLING = ("GELU", "Tanhshrink")
"""Those whose definition, in PyTorch too, is a difference that loses digits."""


def _with(formula: Callable[..., Array], options: dict[str, Any]) -> Callable[[Array], Array]:
    return lambda x: formula(x, **options)


ACTIVATIONS = [
    Activation(layer, options, _with(formula, options))
    for layer, (formula, choices) in DEFINITIONS.items()
    for options in choices
]

"""The table of divergences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontend.distributions.distribution import Distribution
from frontend.engine.tensors.tensor import Tensor

_KL_REGISTRY: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator for a function of two distributions of these types (or subclasses). Raises
    TypeError for what is no type."""
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError(f"Expected a subclass of Distribution but got {kind}")

    def decorate(function: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = function
        return function

    return decorate


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p ‖ q) per batch element. Raises NotImplementedError for a pair that is not registered."""
    for left in type(p).__mro__:
        for right in type(q).__mro__:
            if (left, right) in _KL_REGISTRY:
                return _KL_REGISTRY[left, right](p, q)
    raise unknown_pair(p, q)


def unknown_pair(p: Distribution, q: Distribution) -> NotImplementedError:
    """The error of a pair that is not registered."""
    return NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )

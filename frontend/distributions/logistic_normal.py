"""Normal vectors on the simplex."""

from __future__ import annotations

from typing import Any

from frontend.distributions import constraints
from frontend.distributions.independent import Independent
from frontend.distributions.normal import Normal
from frontend.distributions.transformed_distribution import TransformedFamily
from frontend.distributions.transforms import StickBreakingTransform
from frontend.distributions.utils import broadcast_all


class LogisticNormal(TransformedFamily):
    """Points of the simplex [*, K] of normal numbers of mean `loc` and standard deviation `scale`,
    [*, K - 1], by breaking a stick."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    parameters = ("loc", "scale")

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        if self.loc.dim() < 1:
            self.loc, self.scale = self.loc.unsqueeze(-1), self.scale.unsqueeze(-1)
        self._set_up(validate_args)

    def _own_dims(self, name: str) -> tuple[int, ...]:
        return tuple(self.loc.shape[-1:])

    def _base_and_transforms(self) -> Any:
        base = Independent(Normal(self.loc, self.scale, False), 1, False)
        return base, [StickBreakingTransform()]

"""What the continuous relaxations of discrete distributions share (Maddison et al., 2017)."""

from __future__ import annotations

from typing import Any, ClassVar

from frontend.distributions.distribution import Distribution
from frontend.distributions.transformed_distribution import TransformedDistribution
from frontend.engine.tensors.tensor import Tensor


class RelaxedDistribution(TransformedDistribution):
    """Samples of `unbounded` (`temperature`, `probs`, `logits`), brought to the support by
    `transform`."""

    unbounded: ClassVar[type[Distribution]]
    transform: ClassVar[type]

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ):  # fmt: skip
        base: Any = self.unbounded
        base = base(temperature, probs, logits, validate_args)
        super().__init__(base, self.transform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        return self.base_dist.temperature  # type: ignore[attr-defined]

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits  # type: ignore[attr-defined]

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs  # type: ignore[attr-defined]

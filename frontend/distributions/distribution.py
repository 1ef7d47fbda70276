"""`Distribution`: what all distributions share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from frontend.creation import tensor
from frontend.distributions.constraints import Constraint
from frontend.dtypes import Size
from frontend.functions.shape import broadcast_tensors, expand
from frontend.state import STATE, no_grad
from frontend.tensor import Tensor


class Distribution:
    """Base of the distributions. `batch_shape` is the shape of the parameters, `event_shape` that
    of one sample. Parameters are checked where `validate_args` (by default yes); in a trace values
    are not known and nothing is checked. Raises ValueError for parameters out of range.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: dict[str, Constraint] = {}
    parameters: tuple[str, ...] = ()  # attributes that broadcast with the batch
    _validate_args = True

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ):  # fmt: skip
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args and STATE.session is None:
            self._check_parameters()

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            value = self.__dict__.get(name)
            if value is None:
                continue
            with no_grad():
                valid = bool(constraint.check(value).all())
            if not valid:
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    @property
    def support(self) -> Constraint | None:
        """The values a sample can take."""
        return None

    @property
    def batch_shape(self) -> Size:
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        raise NotImplementedError

    @property
    def variance(self) -> Tensor:
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """A sample of shape [*sample_shape, *batch, *event] that gradients flow through."""
        raise NotImplementedError(f"{type(self).__name__} has no reparameterised sample")

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """A sample of shape [*sample_shape, *batch, *event], without gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density (or probability) of `value`."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy per batch element, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        return self.entropy().exp()

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """The same distribution with its parameters expanded to `batch_shape`."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._batch_shape = Size(batch_shape)
        for name in self.parameters:
            value = self.__dict__.get(name)
            if value is not None:
                made.__dict__[name] = expand(value, (*batch_shape, *self._own_dims(name)))
        return made

    def _own_dims(self, name: str) -> tuple[int, ...]:
        """The dimensions of a parameter beside those of the batch."""
        return ()

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> tuple[int, ...]:
        return (*sample_shape, *self._batch_shape, *self._event_shape)

    def _validate_sample(self, value: Any) -> None:
        """Raise ValueError for a value that is no sample of this distribution."""
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        wanted, given = self._extended_shape(), tuple(value.shape)
        for i, j in zip(reversed(given), reversed(wanted)):
            if i not in (1, j) and j != 1:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{Size(given)} vs {Size(wanted)}."
                )
        support = self.support
        if support is None or STATE.session is not None:
            return
        with no_grad():
            valid = bool(support.check(value).all())
        if not valid:
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {given}) to be within "
                f"the support ({support!r}) of the distribution {self!r}, but found invalid "
                f"values:\n{value}"
            )

    def __repr__(self) -> str:
        shown = []
        for name in self.arg_constraints:
            value = self.__dict__.get(name)
            if value is not None:
                text = f"{value}" if value.numel() == 1 else f"{value.size()}"
                shown.append(f"{name}: {text}")
        return f"{type(self).__name__}({', '.join(shown)})"


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape. Raises ValueError for anything else."""
    for value in values:
        if not isinstance(value, Tensor | int | float):
            raise ValueError(
                "Input arguments must all be instances of Number, torch.Tensor or objects "
                "implementing __torch_function__."
            )
    model = next((value for value in values if isinstance(value, Tensor)), None)
    dtype = None if model is None else model.dtype
    made = [
        value if isinstance(value, Tensor) else tensor(float(value), dtype=dtype)
        for value in values
    ]
    return tuple(broadcast_tensors(*made))

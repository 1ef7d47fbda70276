"""`Distribution`: what all distributions share."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from frontend.distributions.constraints import Constraint, is_dependent
from frontend.engine.tensors.dtypes import Size
from frontend.engine.tensors.state import computing, no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.shape import expand


class Distribution:
    """Base of the distributions. `batch_shape` is the shape of the parameters, `event_shape` that
    of one sample.

    Parameters and samples are checked where `validate_args` (by default yes), against
    `arg_constraints` and `support`; in a trace their values are not known, and only shapes are
    checked. Raises ValueError for what is out of range.
    """

    _computes_by: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Methods read all attributes: traces look at them again."""

    has_rsample = False
    has_enumerate_support = False
    support: Any = None
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
        if self._validate_args and computing():
            self._check_parameters()

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        """What each parameter has to satisfy, by name. Subclasses define it."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = "
                "{}` or initialize the distribution with `validate_args=False` to turn off "
                "validation.",
                stacklevel=4,
            )
            return
        for name, constraint in wanted.items():
            value = self.__dict__.get(name)
            if value is None or is_dependent(constraint):
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
    def batch_shape(self) -> Size:
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """A sample of shape [*sample_shape, *batch, *event] that gradients flow through."""
        raise NotImplementedError(
            f"{type(self).__name__} has no sample that gradients flow through: has_rsample is False"
        )

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """A sample of shape [*sample_shape, *batch, *event], without gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`."""
        warnings.warn(
            "sample_n(n) will be deprecated. Use .sample((n,)) instead", FutureWarning, stacklevel=2
        )
        return self.sample((n,))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values a sample can take, along a new first dimension."""
        raise NotImplementedError(f"the support of {type(self).__name__} cannot be enumerated")

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
        expanded = type(self).__new__(type(self)) if _instance is None else _instance
        expanded.__dict__.update(self.__dict__)
        expanded._batch_shape = Size(batch_shape)
        for name in self.parameters:
            value = self.__dict__.get(name)
            if value is not None:
                expanded.__dict__[name] = expand(value, (*batch_shape, *self._own_dims(name)))
        return expanded

    def _own_dims(self, name: str) -> tuple[int, ...]:
        """The dimensions of a parameter beside those of the batch."""
        return ()

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size((*iter(sample_shape), *self._batch_shape, *self._event_shape))

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """A new object for `expand`. Raises NotImplementedError where a subclass has parameters of
        its own and no `expand`."""
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def _validate_sample(self, value: Any) -> None:
        """Raise ValueError for a value that is no sample of this distribution."""
        if not self._validate_args:
            return
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        wanted, shape = self._extended_shape(), tuple(value.shape)
        for i, j in zip(reversed(shape), reversed(wanted)):
            if i not in (1, j) and j != 1:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{Size(shape)} vs {Size(wanted)}."
                )
        support = self.support
        if support is None or is_dependent(support) or not computing():
            return
        with no_grad():
            valid = bool(support.check(value).all())
        if not valid:
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {shape}) to be within "
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

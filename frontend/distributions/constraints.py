"""What parameters and samples of distributions have to satisfy, named as PyTorch's."""

from __future__ import annotations

from typing import Any

from frontend import linalg
from frontend.functions.logic import isclose, logical_and
from frontend.functions.pointwise import remainder
from frontend.functions.select import tril
from frontend.tensors.tensor import Tensor

__all__ = [
    "Constraint", "boolean", "dependent", "dependent_property", "greater_than", "greater_than_eq",
    "half_open_interval", "independent", "integer_interval", "interval", "is_dependent",
    "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "real",
    "real_vector", "simplex", "unit_interval",
]  # fmt: skip


class Constraint:
    """`check(value)` says of each element (or vector) whether it satisfies the constraint."""

    is_discrete = False
    event_dim = 0  # how many last dimensions one answer is about

    def check(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in self.__dict__.items())
        return f"{type(self).__name__.lstrip('_')}({shown})"


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # not NaN


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0).logical_or(value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        binary = (value == 0).logical_or(value == 1).all(-1)
        return logical_and(binary, value.sum(-1) == 1)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        close = (value.sum(-1) - 1).abs() < 1e-6
        return logical_and((value >= 0).all(-1), close)


class _Dependent(Constraint):
    """A constraint that is known only of an instance."""

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property that is a constraint: of the class it is dependent, of an instance what it says.
    Used as `@dependent_property` or `@dependent_property(is_discrete=…, event_dim=…)`."""

    def __new__(cls, fn: Any = None, **options: Any) -> Any:
        if fn is None:
            return lambda function: cls(function, **options)
        return super().__new__(cls)

    def __init__(self, fn: Any, *, is_discrete: bool = False, event_dim: int = 0):
        super().__init__(fn)
        self.is_discrete = is_discrete
        self.event_dim = event_dim

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else super().__get__(instance, owner)

    def __repr__(self) -> str:
        return "DependentProperty()"


class IndependentConstraint(Constraint):
    """A constraint whose last `reinterpreted_batch_ndims` dimensions of answers are one answer."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int):
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        fulfilled = self.base_constraint.check(value)
        count = self.reinterpreted_batch_ndims
        if fulfilled.dim() < count:
            expected = self.base_constraint.event_dim + count
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        return fulfilled.reshape(*fulfilled.shape[: fulfilled.dim() - count], -1).all(-1)

    def __repr__(self) -> str:
        return (
            f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims!r})"
        )


class GreaterThan(Constraint):
    def __init__(self, lower_bound: Any):
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class GreaterThanEq(Constraint):
    def __init__(self, lower_bound: Any):
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class LessThan(Constraint):
    def __init__(self, upper_bound: Any):
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class Interval(Constraint):
    def __init__(self, lower_bound: Any, upper_bound: Any):
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return logical_and(value >= self.lower_bound, value <= self.upper_bound)


class HalfOpenInterval(Interval):
    def check(self, value: Tensor) -> Tensor:
        return logical_and(value >= self.lower_bound, value < self.upper_bound)


class IntegerInterval(Interval):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return logical_and(super().check(value), remainder(value, 1) == 0)


class IntegerGreaterThan(GreaterThanEq):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return logical_and(super().check(value), remainder(value, 1) == 0)


class _Multinomial(Constraint):
    """Counts whose sum is `upper_bound`, or less."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any):
        self.upper_bound = upper_bound

    def check(self, x: Tensor) -> Tensor:
        return logical_and((x >= 0).all(-1), x.sum(-1) <= self.upper_bound)


class _Square(Constraint):
    event_dim = 2


class _LowerTriangular(_Square):
    def check(self, value: Tensor) -> Tensor:
        return (tril(value) == value).reshape(*value.shape[:-2], -1).all(-1)


class _LowerCholesky(_Square):
    def check(self, value: Tensor) -> Tensor:
        positive = (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)
        return logical_and(_LowerTriangular().check(value), positive)


class _PositiveDefinite(_Square):
    def check(self, value: Tensor) -> Tensor:
        alike = isclose(value, value.mT, atol=1e-6).all(-2).all(-1)
        return logical_and(alike, linalg.cholesky_ex(value).info == 0)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint is known only of an instance."""
    return isinstance(constraint, _Dependent)


boolean = _Boolean()
one_hot = _OneHot()
real = _Real()
independent = IndependentConstraint
real_vector = independent(real, 1)
simplex = _Simplex()
dependent = _Dependent()
dependent_property: Any = _DependentProperty
greater_than = GreaterThan
greater_than_eq = GreaterThanEq
less_than = LessThan
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
interval = Interval
half_open_interval = HalfOpenInterval
unit_interval = interval(0.0, 1.0)
integer_interval = IntegerInterval
positive_integer = IntegerGreaterThan(1)
nonnegative_integer = IntegerGreaterThan(0)
multinomial = _Multinomial
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
positive_definite = _PositiveDefinite()

"""What parameters and samples of distributions have to satisfy, named as PyTorch's."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend import linalg
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import full
from frontend.functions.logic import isclose, logical_and
from frontend.functions.pointwise import remainder
from frontend.functions.select import tril
from frontend.functions.shape import cat as concatenated
from frontend.functions.shape import stack as stacked

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky",
    "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive",
    "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector",
    "simplex", "square", "stack", "symmetric", "unit_interval",
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

    def __call__(self, *, is_discrete: bool = False, event_dim: int = 0) -> Any:
        """A dependent constraint of which this much is known."""
        known = _Dependent()
        known.is_discrete, known.event_dim = is_discrete, event_dim
        return known


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


class _OfMatrices(Constraint):
    event_dim = 2


class _LowerTriangular(_OfMatrices):
    def check(self, value: Tensor) -> Tensor:
        return (tril(value) == value).reshape(*value.shape[:-2], -1).all(-1)


class _LowerCholesky(_OfMatrices):
    def check(self, value: Tensor) -> Tensor:
        positive = (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)
        return logical_and(_LowerTriangular().check(value), positive)


class _CorrCholesky(_OfMatrices):
    """The Cholesky factor of correlations: its rows are of length 1."""

    def check(self, value: Tensor) -> Tensor:
        least = float(np.finfo(value.dtype.computes_as.numpy).eps)
        away = ((value * value).sum(-1).sqrt() - 1).abs() < least * value.size(-1) * 10
        return logical_and(_LowerCholesky().check(value), away.all(-1))


class _Square(_OfMatrices):
    def check(self, value: Tensor) -> Tensor:
        return full(value.shape[:-2], value.shape[-2] == value.shape[-1])


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return square
        return isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not bool(symmetric.all()):
            return symmetric
        return (linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        return logical_and(symmetric, linalg.cholesky_ex(value).info == 0)


class MixtureSameFamilyConstraint(Constraint):
    """That of a mixture: what `base_constraint` says of a value, for each of its components."""

    def __init__(self, base_constraint: Constraint):
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        kept = value.dim() - self.event_dim
        if kept < 0:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        fulfilled = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return fulfilled.reshape(*fulfilled.shape[:kept], -1).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class OfParts(Constraint):
    """Constraints `cseq` of parts of a value along `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0):
        self.cseq, self.dim = list(cseq), dim
        assert all(isinstance(each, Constraint) for each in self.cseq)

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(each.is_discrete for each in self.cseq)


class CatConstraint(OfParts):
    """Constraints of pieces of the given `lengths` (1 by default) along `dim`."""

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ):
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        assert len(self.lengths) == len(self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(each.event_dim for each in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        starts = itertools.accumulate(self.lengths, initial=0)
        checks = [
            each.check(value.narrow(self.dim, start, length))
            for each, start, length in zip(self.cseq, starts, self.lengths)
        ]
        return concatenated(checks, self.dim)


class StackConstraint(OfParts):
    """Constraints of the slices along `dim`."""

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        most = max(each.event_dim for each in self.cseq)
        return most + 1 if self.dim + most < 0 else most

    def check(self, value: Tensor) -> Tensor:
        parts = [value.select(self.dim, i) for i in range(value.size(self.dim))]
        return stacked([one.check(part) for one, part in zip(self.cseq, parts)], self.dim)


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
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
cat = CatConstraint
stack = StackConstraint

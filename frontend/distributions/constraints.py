"""What parameters and samples of distributions have to satisfy."""

from __future__ import annotations

from typing import Any

from frontend.functions.logic import logical_and
from frontend.tensor import Tensor


class Constraint:
    """`check(value)` says of each element (or vector) whether it satisfies the constraint."""

    event_dim = 0  # how many last dimensions one answer is about

    def check(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({shown})"


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # not NaN

    def __repr__(self) -> str:
        return "Real()"


class _RealVector(_Real):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return super().check(value).all(-1)

    def __repr__(self) -> str:
        return "IndependentConstraint(Real(), 1)"


class _Boolean(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return (value == 0).logical_or(value == 1)

    def __repr__(self) -> str:
        return "Boolean()"


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        close = (value.sum(-1) - 1).abs() < 1e-6
        return logical_and((value >= 0).all(-1), close)

    def __repr__(self) -> str:
        return "Simplex()"


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


class Interval(Constraint):
    def __init__(self, lower_bound: Any, upper_bound: Any):
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return logical_and(value >= self.lower_bound, value <= self.upper_bound)


class IntegerInterval(Interval):
    def check(self, value: Tensor) -> Tensor:
        return logical_and(super().check(value), value == value.floor())


boolean = _Boolean()
real = _Real()
real_vector = _RealVector()
simplex = _Simplex()
positive = GreaterThan(0.0)
nonnegative = GreaterThanEq(0.0)
unit_interval = Interval(0.0, 1.0)
interval = Interval
greater_than = GreaterThan
greater_than_eq = GreaterThanEq
integer_interval = IntegerInterval

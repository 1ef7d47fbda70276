"""`biject_to` and `transform_to`: a transform of real numbers to what satisfies a constraint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontend.distributions import constraints, transforms
from frontend.distributions.constraints import Constraint
from frontend.distributions.transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Called with a constraint, gives a transform to it, by what is registered for its class.
    Raises NotImplementedError where nothing is."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Transform]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Register `factory`, which takes a constraint and gives a transform, for the class of
        `constraint`, an instance or the class; as a decorator without `factory`. Raises TypeError
        for what is no constraint."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, Constraint)):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{kind}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Transform:
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints"
            ) from None
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*kinds: Any) -> Callable[[Any], Any]:
    """Register for both; the function takes the registry, too."""

    def decorate(function: Any) -> Any:
        for registry in (biject_to, transform_to):
            for kind in kinds:
                registry.register(kind, lambda c, registry=registry: function(c, registry))
        return function

    return decorate


@_both(constraints.real)
def _to_real(constraint: Any, registry: Any) -> Transform:
    return transforms.identity_transform


@_both(constraints.independent)
def _to_independent(constraint: Any, registry: Any) -> Transform:
    base = registry(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@_both(constraints.greater_than, constraints.greater_than_eq)
def _to_greater(constraint: Any, registry: Any) -> Transform:
    moved = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), moved])


@_both(constraints.less_than)
def _to_less(constraint: Any, registry: Any) -> Transform:
    moved = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), moved])


@_both(constraints.interval, constraints.half_open_interval)
def _to_interval(constraint: Any, registry: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    # Numbers, of which 0 and 1 need no more than the sigmoid.
    if type(low) in (int, float) and type(high) in (int, float) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    scaled = transforms.AffineTransform(low, high - low)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), scaled])


@_both(constraints.corr_cholesky)
def _to_corr_cholesky(constraint: Any, registry: Any) -> Transform:
    return transforms.CorrCholeskyTransform()


@_both(constraints.cat)
def _to_cat(constraint: Any, registry: Any) -> Transform:
    parts = [registry(each) for each in constraint.cseq]
    return transforms.CatTransform(parts, constraint.dim, constraint.lengths)


@_both(constraints.stack)
def _to_stack(constraint: Any, registry: Any) -> Transform:
    return transforms.StackTransform([registry(each) for each in constraint.cseq], constraint.dim)


@biject_to.register(constraints.simplex)
def _bijection_to_simplex(constraint: Any) -> Transform:
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _to_simplex(constraint: Any) -> Transform:
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _to_lower_cholesky(constraint: Any) -> Transform:
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_definite)
@transform_to.register(constraints.positive_semidefinite)
def _to_positive_definite(constraint: Any) -> Transform:
    return transforms.PositiveDefiniteTransform()

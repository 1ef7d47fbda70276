"""`Transform`: what all transforms share, and the inverse of one."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self

from frontend.engine.tensors.tensor import Tensor


class Transform:
    """A map y = f(x) of values of `domain` to `codomain`, with its inverse (where not `bijective`:
    one x of those that give y) and log |det ∂y/∂x|.

    `cache_size` 1 keeps the last x and y, so that the inverse of a y just computed is its very x.
    Subclasses define `_call`, `_inverse` and `log_abs_det_jacobian`. Raises ValueError for another
    `cache_size`.
    """

    bijective = False
    domain: Any
    codomain: Any
    _compared: tuple[str, ...] | None = None  # attributes two equal ones share; None: identity

    def __init__(self, cache_size: int = 0):
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached_x_y: tuple[Any, Any] = None, None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_cached_x_y": (None, None)}

    @property
    def event_dim(self) -> int:
        """How many last dimensions one value has. Raises ValueError where x and y differ."""
        if self.domain.event_dim == self.codomain.event_dim:
            return int(self.domain.event_dim)
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """1 where increasing, -1 where decreasing."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Self:
        """The same transform with that `cache_size`."""
        if self._cache_size == cache_size:
            return self
        other = copy.copy(self)
        Transform.__init__(other, cache_size)
        return other

    def __eq__(self, other: object) -> bool:
        if self is other or self._compared is None or type(self) is not type(other):
            return self is other
        return all(alike(getattr(self, each), getattr(other, each)) for each in self._compared)

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Any) -> Any:
        if self._cache_size == 0:
            return self._call(x)
        known, y = self._cached_x_y
        if x is not known:
            y = self._call(x)
            self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Any) -> Any:
        if self._cache_size == 0:
            return self._inverse(y)
        x, known = self._cached_x_y
        if y is not known:
            x = self._inverse(y)
            self._cached_x_y = x, y
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |det ∂y/∂x| per value, for x and the y that it gives."""
        raise NotImplementedError

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of y, for that of x."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of x, for that of y."""
        return shape

    def __repr__(self) -> str:
        return type(self).__name__ + "()"


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform):
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    @property
    def domain(self) -> Any:
        return self._inv.codomain

    @property
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = None

    def __call__(self, x: Any) -> Any:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Any) -> Any:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"


def alike(one: Any, other: Any) -> bool:
    """Whether two attributes, tensors or not, have the same value."""
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return one is other or bool((one == other).all())
    return bool(one == other)

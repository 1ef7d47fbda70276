"""The kind `contract`: an index expression over a reduction (matrix product, convolution)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from graphc.errors import DTypeError
from graphc.ir.types import DType, Shape, TensorType
from graphc.ops.kinds.movement import Case, guards_hold, take_where
from graphc.ops.kinds.op import Array, Arrays, Op, Parameters, Types, keyword_parameters
from graphc.records import record


@record(slots=False)
class Space:
    """The index space of a contraction: result coordinates in `batch`, those only the left
    operand has (`m`), those only the right one has (`n`), and the reduced ones (`k`), in the
    order in which products are added."""

    batch: Shape
    m: Shape
    n: Shape
    k: Shape


@record(slots=False)
class PairAxis:
    """Where the two elements of pair i lie in an operand: at coordinates `step` · i + `even` and
    `step` · i + `odd` of `axis`."""

    axis: int
    step: int
    even: int
    odd: int


@record(slots=False)
class Pairing:
    """A contraction as one, `of`, of operands whose elements are pairs: their types and attributes,
    and where the elements of pairs lie in both operands. A pair's element that lies outside of the
    operand is 0."""

    of: Contract
    types: Types
    attributes: dict[str, Any]
    axes: tuple[PairAxis, PairAxis]


class Contract(Op):
    """out[batch, m, n] = Σ_k left[batch, m, k] · right[batch, n, k]: products accumulated by FMA
    in the order of k. `space(types, **attributes)` gives the extents; `left(b, m, k)` and
    `right(b, n, k)` the coordinates with guards (a product with a guard that fails is
    skipped: it adds nothing, also where the other operand is infinite);
    `out(b, m, n)` the coordinate of the result. The three get `types` and attributes too.

    Results, sums and products have the type that the operands' compute as. `right_dtypes`: the
    types of the right operand, where those are not the left one's. With `pairs` indices of k
    are added two at a time, the odd one first; an odd number of them ends with one product
    more, of zeros. With `pairing(types, attributes)` it is the last coordinate of k, of 2, that
    says which of a pair, the odd one first. With `chains` the attribute of that name, a power of
    two, says in how many parts of equal length k, one coordinate, is summed: each is a sum of its
    own, and these are added as a binary tree.

    `phases(types, **attributes)`: for each axis of n a step; results whose coordinates are equal
    modulo the steps have the same guarded products (a strided convolution's gradient)."""

    kind = "contract"
    in_order = False
    """Whether `compute` adds up in the order of kernels, and so has their bits."""

    def __init__(
        self,
        name: str,
        shape: Callable[..., Shape],
        space: Callable[..., Space],
        left: Callable[..., Case],
        right: Callable[..., Case],
        out: Callable[..., tuple[Any, ...]],
        compute: Callable[..., Array],
        *,
        dtypes: tuple[DType, ...],
        phases: Callable[..., Shape] | None = None,
        right_dtypes: tuple[DType, ...] | None = None,
        pairs: bool = False,
        pairing: Callable[[Types, dict[str, Any]], Pairing] | None = None,
        chains: bool = False,
        parameters: Parameters | None = None,
        **rest: Any,
    ):
        super().__init__(name, parameters=parameters or keyword_parameters(shape), **rest)
        self.shape_rule = shape
        self.space = space
        self.left = left
        self.right = right
        self.out = out
        self.compute_rule = compute
        self.dtypes = dtypes
        self.phases = phases
        self.right_dtypes = right_dtypes
        self.pairs = pairs
        self.pairing = pairing
        self.chains = chains

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        self.expect(types, 2)
        for position, dtypes in enumerate((self.dtypes, self.right_dtypes or self.dtypes)):
            self.expect_dtype(types[position], dtypes, position)
        if self.right_dtypes is None and types[0].dtype is not types[1].dtype:
            raise DTypeError(
                f"{self.name} takes operands of one dtype, got {types[0]}, {types[1]}",
                hint="cast one of them",
            )
        return (TensorType(types[0].dtype.computes_as, self.shape_rule(types, **attributes)),)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        arrays = self._widened(arrays)
        return (np.asarray(self.compute_rule(*arrays, **attributes), dtype=arrays[0].dtype),)

    def refer(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        types = tuple(TensorType.of(array) for array in arrays)
        (result,) = self.infer(types, attributes)
        arrays = self._widened(arrays)
        space = self.space(types, **attributes)
        groups = (space.batch, space.m, space.n, space.k)
        grid = np.indices(space.batch + space.m + space.n + space.k, sparse=True)
        parts, start = [], 0
        for group in groups:
            parts.append(tuple(grid[start : start + len(group)]))
            start += len(group)
        b, m, n, k = parts
        total = np.ones(space.batch + space.m + space.n + space.k, arrays[0].dtype)
        counted = np.ones(total.shape, bool)
        for case in (
            self.left(b, m, k, types, **attributes),
            self.right(b, n, k, types, **attributes),
        ):
            array = arrays[case.operand]
            held = guards_hold(case.guards, total.shape)
            index = np.broadcast_arrays(*case.index, total)[:-1]
            total = total * take_where(array, tuple(index), held)
            counted &= held
        total = np.where(counted, total, total.dtype.type(0))
        axes = tuple(range(total.ndim - len(space.k), total.ndim))
        summed = total.sum(axis=axes, dtype=total.dtype)
        out = np.zeros(result.shape, result.dtype.numpy)
        where = np.indices(summed.shape, sparse=True)
        edges = np.cumsum([0, len(space.batch), len(space.m), len(space.n)])
        coordinate = self.out(
            *(tuple(where[a:b]) for a, b in pairwise(edges)),
            types,
            **attributes,
        )
        out[np.broadcast_arrays(*coordinate, summed)[:-1] if coordinate else ()] = summed
        return (out,)

    def _widened(self, arrays: Arrays) -> Arrays:
        """Operands in the dtype of the sums."""
        if not self.takes_stored:
            return arrays
        return tuple(each.astype(DType.of(each.dtype).computes_as.numpy) for each in arrays)

"""Chains and powers of matrices, cross products, norms. Inverses and decompositions stand in
`linear_algebra`, which is imported when first asked for."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from frontend.engine.eager.autocasting import lower_precision
from frontend.engine.eager.promotion import common_shape
from frontend.engine.eager.uncompiled import conj
from frontend.engine.tensors.dtypes import SCALAR_NAMES, as_dtype
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import reduce
from frontend.functions.arguments import need_tensors, not_implemented, numpy_names, stored
from frontend.functions.declarations import public
from frontend.functions.layout import expand, movedim
from frontend.functions.matrix import attached, matmul
from frontend.functions.ranges import eye
from frontend.functions.rearrange import roll
from frontend.functions.reduce import dimension
from frontend.functions.unary import abs
from graphc.errors import DTypeError, ShapeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType
from graphc.system import IMPORTING

# `frontend.trace` takes matrices too and comes here.

# -- chains --------------------------------------------------------------------------------------


@public()
def chain_matmul(*matrices: Tensor, out: Any = None) -> Tensor:
    """The product of matrices, in the order that takes the fewest multiplications."""
    for x in matrices:
        if x.dim() != 2:
            raise RuntimeError(f"Tensor dimension is {x.dim()}, expected 2 instead.")
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    return stored(matrices[0] if len(matrices) == 1 else _chained(list(matrices)), out)


def multi_dot(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """The product of two or more matrices, in the order that takes the fewest multiplications; the
    first and the last may be vectors."""
    items = list(tensors)
    if len(items) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(items)}")
    for position, x in enumerate(items):
        ends = position in (0, len(items) - 1)
        if x.dim() not in ((1, 2) if ends else (2,)):
            raise RuntimeError(
                f"multi_dot(): tensor {position} must be {'1D or ' if ends else ''}2D but got "
                f"{x.dim()}D"
            )
    shape: tuple[int, ...] = ()
    if items[0].dim() == 1:
        items[0] = items[0].unsqueeze(0)
    else:
        shape += items[0]._sizes[:1]
    if items[-1].dim() == 1:
        items[-1] = items[-1].unsqueeze(1)
    else:
        shape += items[-1]._sizes[1:]
    product = _chained(items)
    return stored(product if product._sizes == shape else product.reshape(shape), out)


def _chained(matrices: list[Tensor]) -> Tensor:
    """Dynamic programming over all parenthesisations (Cormen et al., Introduction to Algorithms,
    "Matrix-chain multiplication")."""
    count = len(matrices)
    sizes = [x.shape[0] for x in matrices] + [matrices[-1].shape[1]]
    cost = {(i, i): 0 for i in range(count)}
    cut: dict[tuple[int, int], int] = {}
    for span in range(1, count):
        for first in range(count - span):
            last = first + span
            outer = sizes[first] * sizes[last + 1]
            prices = {
                k: cost[first, k] + cost[k + 1, last] + outer * sizes[k + 1]
                for k in range(first, last)
            }
            cut[first, last] = min(prices, key=lambda k: prices[k])
            cost[first, last] = prices[cut[first, last]]

    def multiplied(first: int, last: int) -> Tensor:
        if first == last:
            return matrices[first]
        middle = cut[first, last]
        return matmul(multiplied(first, middle), multiplied(middle + 1, last))

    return multiplied(0, count - 1)


@public(method=True)
def matrix_power(input: Tensor, n: int, *, out: Any = None) -> Tensor:
    """Square matrices (the last two dimensions) to a whole power, by squaring; 0 gives the
    identity, negative powers are those of the inverse."""
    need_tensors("matrix_power", input=input)
    shape = input._sizes
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(
            "linalg.matrix_power: A must be batches of square matrices, but they are "
            f"{' by '.join(map(str, shape[-2:]))} matrices",
            location=user_location(),
        )
    if n < 0:
        with IMPORTING:
            from frontend.functions.linear_algebra.solving import inv

        return stored(matrix_power(inv(input), -n), out)
    if n == 0:
        unit = expand(eye(shape[-1], dtype=input.dtype), shape).clone()
        return stored(attached(unit, input), out)
    result, square = None, input
    while True:
        if n & 1:
            result = square if result is None else matmul(result, square)
        n >>= 1
        if not n:
            return stored(result.clone() if result is input else result, out)
        square = matmul(square, square)


# -- products and traces -------------------------------------------------------------------------


@public(at="", method=True, node="Trace", autocast="float32")
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix; integers sum to int64."""
    need_tensors("trace", input=input)
    if input.dtype is DType.bool:
        raise not_implemented("trace", input.dtype)
    if input.dim() != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.dim()}")
    return reduce.sum(input.diagonal())


@public(method=True, node="LinalgCross")
def cross(input: Tensor, other: Tensor, dim: int | None = None, *, out: Any = None) -> Tensor:
    """The cross product of vectors of size 3 along `dim`, or along the first dimension of that
    size."""
    need_tensors("cross", input=input, other=other)
    if dim is None:
        threes = [axis for axis, size in enumerate(input.shape) if size == 3]
        if not threes:
            raise RuntimeError("no dimension of size 3 in input")
        dim = threes[0]
    return stored(_cross(input, other, dim), out)


def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Any = None) -> Tensor:
    """The cross product of vectors of size 3 along `dim`; the other dimensions broadcast."""
    need_tensors("cross", input=input, other=other)
    return stored(_cross(input, other, dim), out)


def _cross(x: Tensor, y: Tensor, dim: int) -> Tensor:
    if x.dim() != y.dim():
        raise ShapeError(
            "linalg.cross: inputs must have the same number of dimensions.",
            location=user_location(),
        )
    axis = dimension(dim, x.dim())
    if not x.dim() or x.shape[axis] != 3 or y.shape[axis] != 3:
        sizes = [x.shape[axis], y.shape[axis]] if x.dim() else [1, 1]
        raise ShapeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {sizes[0]} and "
            f"{sizes[1]}",
            location=user_location(),
        )
    shape = common_shape(x, y)
    x, y = expand(x, shape), expand(y, shape)
    # Element i is x[i + 1]·y[i + 2] - x[i + 2]·y[i + 1], positions modulo 3.
    return roll(x, -1, axis) * roll(y, -2, axis) - roll(x, -2, axis) * roll(y, -1, axis)


@lower_precision
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Any = None) -> Tensor:
    """The inner products of vectors along `dim`, with the conjugates of `x`; the other dimensions
    broadcast."""
    need_tensors("vecdot", x=x, y=y)
    for operand in (x, y):
        if not operand.dtype.is_float:
            raise DTypeError(
                "linalg.vecdot: Expected a floating point or complex tensor as input. Got "
                f"{SCALAR_NAMES[operand.dtype]}",
                location=user_location(),
            )
    return stored(reduce.sum(conj(x) * y, dim), out)


# -- norms ---------------------------------------------------------------------------------------


@numpy_names
def vector_norm(
    x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None,
    out: Any = None,
) -> Tensor:  # fmt: skip
    """The norm of order `ord` of all elements, or over `dim`: a number, inf, -inf, or 0, which
    counts what is not 0."""
    need_tensors("vector_norm", x=x)
    return stored(reduce.vector_norm("linalg.vector_norm", x, ord, dim, keepdim, dtype), out)


@numpy_names
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *,
    dtype: Any = None, out: Any = None,
) -> Tensor:  # fmt: skip
    """The norm of the matrices in two dimensions: "fro", or the greatest (ord 1, inf) or least (-1,
    -inf) sum of magnitudes of a column (1) or row (inf); 2 is the greatest singular value, -2 the
    least, "nuc" the sum of all."""
    need_tensors("matrix_norm", A=A)
    if A.dim() < 2:
        raise RuntimeError(
            "linalg.matrix_norm: The input tensor A must have at least 2 dimensions."
        )
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {list(dim)}")
    row, column = (dimension(d, A.dim()) for d in dim)
    if row == column:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    kind = A.dtype if dtype is None else as_dtype(dtype)
    if not A.dtype.is_float or not kind.is_float:
        raise DTypeError(
            "linalg.matrix_norm: Expected a floating point or complex tensor as input. Got "
            f"{SCALAR_NAMES[A.dtype]}",
            location=user_location(),
        )
    if ord == "fro":
        return stored(reduce.vector_norm("linalg.matrix_norm", A, 2, dim, keepdim, dtype), out)
    if ord in (2, -2, "nuc"):
        norms = _of_singular_values(A.to(kind), ord, row, column)
        kept = norms.unsqueeze(min(row, column)).unsqueeze(max(row, column)) if keepdim else norms
        return stored(kept, out)
    if ord not in (1, -1, math.inf, -math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    summed, chosen = (row, column) if builtins.abs(ord) == 1 else (column, row)
    totals = reduce.sum(abs(A.to(kind)), summed, keepdim=True)
    if ord > 0 and not totals.shape[chosen]:
        norms = reduce.sum(totals, chosen, keepdim=True)  # of nothing: 0
    else:
        norms = (reduce.amax if ord > 0 else reduce.amin)(totals, chosen, keepdim=True)
    return stored(norms if keepdim else norms.squeeze((row, column)), out)


def _of_singular_values(x: Tensor, ord: Any, row: int, column: int) -> Tensor:
    with IMPORTING:
        from frontend.functions.linear_algebra.spectra import svdvals

    values = svdvals(movedim(x, (row, column), (-2, -1)))
    if ord == "nuc" or (ord > 0 and not values.shape[-1]):  # of nothing: 0
        return reduce.sum(values, -1)
    return (reduce.amax if ord > 0 else reduce.amin)(values, -1)


@numpy_names
def norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None,
    out: Any = None,
) -> Tensor:  # fmt: skip
    """A vector norm where `dim` is one dimension or nothing says otherwise, a matrix norm where
    `dim` is two, or `ord` is given for a matrix."""
    need_tensors("norm", A=A)
    dims = [dim] if isinstance(dim, int) else dim
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}"
        )
    if isinstance(ord, str) or (ord is not None and (len(dims) if dims else A.dim()) == 2):
        plane = (-2, -1) if dims is None else dims
        return matrix_norm(A, ord, plane, keepdim, dtype=dtype, out=out)
    if ord is not None and dims is None and A.dim() > 2:
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{A.dim()}D."
        )
    return vector_norm(A, 2 if ord is None else ord, dims, keepdim, dtype=dtype, out=out)

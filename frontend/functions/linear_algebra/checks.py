"""What functions of matrices ask of their arguments, in PyTorch's words, and the products and
transposes their formulas are written with."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.reinterpreting import VIEW_AS_COMPLEX, VIEW_AS_REAL
from frontend.engine.eager.uncompiled import conj
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_tensors
from frontend.functions.layout import broadcast_shapes, expand, transpose
from frontend.functions.matrix import matmul
from graphc.errors import DTypeError, LinAlgError, ShapeError
from graphc.ir.builder import user_location
from graphc.ops.linear_algebra.lapack import check_success

mm = matmul


def mT(x: Tensor) -> Tensor:
    """The matrices transposed."""
    return transpose(x, -2, -1)


def mH(x: Tensor) -> Tensor:
    """The matrices transposed, of complex ones the conjugates: what gradient rules turn by."""
    return conj(mT(x))


def floats(name: str, **operands: Any) -> None:
    """Raise where an operand is no tensor of f32 or f64, or they differ in dtype."""
    need_tensors(name, **operands)
    first = None
    for x in operands.values():
        if not x.dtype.is_float:
            raise DTypeError(
                f"{name}: Expected a floating point or complex tensor as input. Got "
                f"{SCALAR_NAMES[x.dtype]}",
                location=user_location(),
            )
        if x.dtype.is_storage:
            raise DTypeError(
                f"{name}: Low precision dtypes not supported. Got {SCALAR_NAMES[x.dtype]}",
                hint="compute in float32",
                location=user_location(),
            )
        first = x.dtype if first is None else first
        if x.dtype is not first:
            raise DTypeError(
                f"{name}: Expected A and B to have the same dtype, but found A of type "
                f"{SCALAR_NAMES[first]} and B of type {SCALAR_NAMES[x.dtype]} instead",
                hint="convert one of them with .to(dtype)",
                location=user_location(),
            )


def matrices(name: str, **operands: Any) -> None:
    """`floats`, each with two dimensions or more."""
    floats(name, **operands)
    for label, x in operands.items():
        if x.dim() < 2:
            raise misfit(f"{name}: The input tensor {label} must have at least 2 dimensions.")


def square(name: str, **operands: Any) -> None:
    """`matrices`, each as high as wide."""
    matrices(name, **operands)
    for label, x in operands.items():
        rows, columns = x._sizes[-2:]
        if rows != columns:
            raise misfit(
                f"{name}: {label} must be batches of square matrices, but they are {rows} by "
                f"{columns} matrices"
            )


def misfit(message: str) -> ShapeError:
    """A ShapeError at the user's line."""
    return ShapeError(message, location=user_location())


def batches(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Two batches of matrices with their leading dimensions broadcast."""
    one, other = x._sizes, y._sizes
    if one[:-2] == other[:-2]:
        return x, y
    lead = tuple(broadcast_shapes(one[:-2], other[:-2]))
    return expand(x, (*lead, *one[-2:])), expand(y, (*lead, *other[-2:]))


def is_vector(a: Tensor, b: Tensor) -> bool:
    """Whether the right-hand side `b` of a system is a batch of vectors rather than of matrices."""
    rows = a._sizes[:-1]
    return b.dim() == 1 or (a.dim() - 1 == b.dim() and b._sizes == rows)


# -- what LAPACK says ----------------------------------------------------------------------------


def successful(name: str, info: Tensor, text: str, result: Tensor) -> Tensor:
    """`result`, if no matrix of the batch has an info other than 0; else LinAlgError in PyTorch's
    words: `text` has a place for the info. In a trace the run raises it, before anything is
    written, and names neither matrix nor info."""
    if STATE.mode is None:
        if not info.is_meta:
            raise_for_info(name, info._array(name), text)
        return result
    if result.dtype.is_complex:
        checked = successful(name, info, text, CONTEXT.apply(VIEW_AS_REAL, (result,), {})[0])
        return CONTEXT.apply(VIEW_AS_COMPLEX, (checked,), {})[0]
    fine = info == 0
    while fine.dim() < result.dim():
        fine = fine.unsqueeze(-1)
    operands = expand(fine, result._sizes), result
    return CONTEXT.apply(check_success, operands, {"message": f"{name}: {text.format('k')}"})[0]


def raise_for_info(name: str, info: np.ndarray[Any, Any], text: str) -> None:
    """Raise LinAlgError for the first matrix whose info is not 0, in PyTorch's words; `text` has a
    place for the info."""
    flat = info.reshape(-1)
    if not flat.any():
        return
    first = int(np.flatnonzero(flat)[0])
    which = f"(Batch element {first}): " if info.ndim else " "
    raise LinAlgError(f"{name}:{which}{text.format(flat[first])}", location=user_location())

"""Distances between tensors and between the rows of tensors."""

from __future__ import annotations

from frontend.engine.eager.promotion import casted, result_type
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_tensors
from frontend.functions.declarations import public
from frontend.functions.reduce import vector_norm
from graphc.errors import DTypeError, ShapeError
from graphc.ir.builder import user_location


@public(method=True, node="Dist")
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of input - other, which broadcast."""
    need_tensors("dist", input=input, other=other)
    return vector_norm("norm()", input - other, p, None, False)


MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)


@public(node="Cdist", autocast="float32")
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:  # fmt: skip
    """The p-norms between all rows of x1 [..., n, k] and x2 [..., m, k]: [..., n, m]. Every mode
    computes the differences themselves, which is exact also for rows that are close."""
    need_tensors("cdist", x1=x1, x2=x2)
    for name, x in (("X1", x1), ("X2", x2)):
        if x.dim() < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.dim()}D")
        if not x.dtype.is_float:
            raise DTypeError(
                f"cdist only supports floating-point dtypes, {name} got: {SCALAR_NAMES[x.dtype]}",
                location=user_location(),
            )
    if x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: "
            f"{x2.shape[-1]}",
            location=user_location(),
        )
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if compute_mode not in MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    kind = result_type(x1, x2)
    difference = casted(x1, kind).unsqueeze(-2) - casted(x2, kind).unsqueeze(-3)
    if not difference.shape[-1]:
        return difference.sum(-1)
    return vector_norm("cdist", difference, p, -1, False)

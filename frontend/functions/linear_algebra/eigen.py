"""Eigenvalues and eigenvectors of square matrices of any kind: complex numbers. The order, and the
length and angle of eigenvectors, are LAPACK's."""

from __future__ import annotations

from typing import Any

from frontend.engine.eager.autocasting import full_precision
from frontend.engine.eager.host_ops import HostOp
from frontend.engine.eager.uncompiled import conj, real_part
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import return_types
from frontend.functions.arguments import stored
from frontend.functions.linear_algebra.checks import mH, mm, square, successful
from frontend.functions.linear_algebra.solving import SOLVE
from frontend.functions.pointwise import where
from frontend.functions.ranges import eye
from frontend.functions.select import diag_embed, diagonal
from graphc.ops.linear_algebra import complex_lapack as ops


def _eig_rule(g: Any, out: Any, a: Any) -> tuple[Any]:
    """V⁻ᴴ·(diag(gL) + (VᴴgV - VᴴV·diag(Re VᴴgV)) / E)·Vᴴ with E the conjugates of Lⱼ - Lᵢ (C.
    Boeddeker, P. Hanebrink, L. Drude, J. Heymann, R. Haeb-Umbach, "On the Computation of
    Complex-valued Gradients with Application to Statistically Optimum Beamforming", 2017)."""
    to_values, to_vectors, _ = g
    values, vectors, _ = out
    inner: Any = None if to_values is None else diag_embed(to_values)
    if to_vectors is not None:
        projected = mm(mH(vectors), to_vectors)
        along = real_part(diagonal(projected, dim1=-2, dim2=-1))[..., None, :]
        projected = projected - mm(mH(vectors), vectors * along)
        unit = eye(values.shape[-1]) > 0
        gaps = where(unit, 1.0, conj(values[..., None, :] - values[..., :, None]))
        apart = where(unit, 0.0, projected / gaps)
        inner = apart if inner is None else inner + apart
    gradient = SOLVE(mH(vectors), mm(inner, mH(vectors)))[0]
    return (gradient if a.dtype.is_complex else real_part(gradient),)


EIG = HostOp("linalg.eig", ops.eig, _eig_rule, ((), (0, 1)))


@full_precision
def eig(A: Tensor, *, out: Any = None) -> Any:
    """The eigenvalues and eigenvectors of square matrices, complex for real ones too. The gradient
    is that of what does not depend on the length and angle of eigenvectors; it is infinite or NaN
    where eigenvalues are equal and vectors have gradients. Raises LinAlgError where a matrix has
    infinite or NaN elements."""
    square("linalg.eig", A=A)
    *parts, info = EIG(A)
    text = "Array must not contain infs or NaNs"
    parts = [successful("linalg.eig", info, text, part) for part in parts]
    return stored(return_types.linalg_eig(*parts), out)


@full_precision
def eigvals(A: Tensor, *, out: Any = None) -> Tensor:
    """The eigenvalues of square matrices."""
    return stored(eig(A)[0], out)

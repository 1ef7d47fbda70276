"""Normal distributions of vectors."""

from __future__ import annotations

from frontend import linalg
from frontend.distributions.kl.registry import register_kl
from frontend.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from frontend.distributions.multivariate_normal import MultivariateNormal
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.shape import cat

Vectors = MultivariateNormal | LowRankMultivariateNormal


def _columns(p: Vectors) -> Tensor:
    """C of C Cᵀ = the covariance."""
    if isinstance(p, MultivariateNormal):
        return p.scale_tril
    return cat([p.cov_factor, p.cov_diag.sqrt().diag_embed()], -1)


def _squares(q: Vectors, columns: Tensor) -> Tensor:
    """The trace of Cᵀ Σ⁻¹ C."""
    if isinstance(q, MultivariateNormal):
        solved = linalg.solve_triangular(q.scale_tril, columns, upper=False)
        return (solved**2).sum((-2, -1))
    shared = q._solved_factor() @ columns
    scaled = columns**2 / q.cov_diag.unsqueeze(-1)
    return scaled.sum((-2, -1)) - (shared**2).sum((-2, -1))


def _log_det(p: Vectors) -> Tensor:
    return 2 * p._half_log_det() if isinstance(p, MultivariateNormal) else p._log_det()


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _vectors(p: Vectors, q: Vectors) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be "
            "computed"
        )
    wide = tuple((p.loc + q.loc).shape)[:-1]
    columns = _columns(p)
    columns = columns.expand(*wide, *columns.shape[-2:])
    apart = _squares(q, (q.loc - p.loc).unsqueeze(-1))
    return 0.5 * (_log_det(q) - _log_det(p) + _squares(q, columns) + apart - p.event_shape[0])

"""Systems, determinants, factorizations and spectra against PyTorch. Signs of vectors are free, so
that what is compared does not depend on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

INF = np.inf

# Calls on q [4, 4] and f [2, 3, 4, 4] well conditioned, p [4, 4] and h [2, 4, 4] positive definite,
# a [5, 3], w [3, 5], b [4, 2], g [3, 4, 2], v [4], c [2, 4, 2], z [2, 3, 4, 5]; all f64.
CALLS = """
t.linalg.inv(q) | t.inverse(f) | f.inverse() | t.linalg.inv(q[:0, :0]) | tuple(t.linalg.inv_ex(f))
t.linalg.solve(q, b) | t.linalg.solve(q, v) | t.linalg.solve(f, g) | t.linalg.solve(q, g)
t.linalg.solve(f, v) | t.linalg.solve(q, b.T, left=False) | tuple(t.linalg.solve_ex(q, b))
t.linalg.solve(h, h[:, 0]) | t.linalg.solve(f[0], q[:3]) | t.linalg.solve(f, z)
t.linalg.solve_triangular(q, b, upper=True) | t.linalg.solve_triangular(q, b, upper=False)
t.linalg.solve_triangular(q, b.T, upper=True, left=False, unitriangular=True)
t.linalg.solve_triangular(f, g, upper=False, unitriangular=True)
t.triangular_solve(b, q)[0] | b.triangular_solve(q, False, True).solution
t.linalg.det(q) | f.det() | t.det(f) | t.linalg.det(t.zeros(0, 0)) | t.linalg.slogdet(f)[1]
tuple(t.slogdet(f)) | t.linalg.slogdet(q).logabsdet | t.logdet(p) | h.logdet() | q.slogdet()[1]
t.linalg.cholesky(p) | t.linalg.cholesky(h, upper=True) | p.cholesky() | t.cholesky(p, True)
tuple(t.linalg.cholesky_ex(h)) | t.cholesky_solve(b, p.cholesky()) | p.cholesky().cholesky_inverse()
t.cholesky_solve(b, p.cholesky(upper=True), upper=True) | t.cholesky_inverse(h.cholesky(True), True)
tuple(t.linalg.qr(q)) | tuple(t.linalg.qr(a)) | tuple(t.linalg.qr(w)) | t.qr(z).R | t.linalg.qr(f).Q
tuple(t.linalg.qr(w, 'complete')) | tuple(t.qr(w, False)) | q.qr()[1]
tuple(t.linalg.lu(q)) | tuple(t.linalg.lu(f)) | tuple(t.linalg.lu(a)) | tuple(t.linalg.lu(w))
tuple(t.linalg.lu_factor(q)) | tuple(t.linalg.lu_factor(z)) | tuple(t.linalg.lu_factor_ex(a))
tuple(t.lu_unpack(*t.linalg.lu_factor(a)))
t.lu(q)[0] | q.lu(get_infos=True) | t.linalg.lu_solve(*t.linalg.lu_factor(q), b)
t.linalg.lu_solve(*t.linalg.lu_factor(q), b, adjoint=True) | b.lu_solve(*t.linalg.lu_factor(q))
t.linalg.lu_solve(*t.linalg.lu_factor(q), b.T, left=False)
t.linalg.lu_solve(*t.linalg.lu_factor(q), b.T, left=False, adjoint=True)
t.linalg.householder_product(a, a[0] / 3) | t.orgqr(a, a[0, :2]) | a.orgqr(a[0])
t.ormqr(a, a[0], t.linalg.qr(a).Q) | t.ormqr(a, a[0], w, left=False, transpose=True)
t.linalg.svdvals(a) | t.linalg.svdvals(z) | t.linalg.svd(w)[1] | t.svd(q).S
a.svd(compute_uv=False)[1]
(lambda u, s, v: (u @ t.diag(s) @ v, u * u, v * v))(*t.linalg.svd(a, full_matrices=False))
(lambda u, s, v: ((u[..., None, :] * v.mT[..., None, :, :]).pow(2)))(*t.linalg.svd(f, False))
(lambda u, s, v: (u @ t.diag_embed(s) @ v.mT, u ** 2))(*t.svd(z))
(lambda u, s, v: (u[:, :3] ** 2, v ** 2))(*t.linalg.svd(a))
t.linalg.eigvalsh(p) | t.linalg.eigvalsh(f, UPLO='U') | t.linalg.eigh(q)[0]
t.linalg.eigh(h)[1] ** 2
(lambda l, v: v @ t.diag_embed(l.exp()) @ v.mT)(*t.linalg.eigh(h))
t.linalg.pinv(a) | t.linalg.pinv(z) | t.pinverse(w) | a.pinverse()
t.linalg.pinv(p, hermitian=True)
t.linalg.pinv(a @ w) | t.linalg.pinv(a, rtol=0.5) | t.linalg.pinv(a, atol=0.1)
t.linalg.matrix_rank(a @ w) | t.linalg.matrix_rank(f) | t.linalg.matrix_rank(p, hermitian=True)
t.linalg.matrix_rank(a, tol=1.0) | t.linalg.matrix_rank(f, atol=1.0)
t.linalg.matrix_rank(f, rtol=.5)
t.linalg.matrix_rank(t.zeros(2, 3)) | t.linalg.matrix_rank(t.zeros(0, 3))
t.linalg.lstsq(a, a[:, :2] * 2 + 1).solution | t.linalg.lstsq(w, w[:, :2]).solution
t.linalg.lstsq(a, a[:, :2] ** 2, driver='gelsd')[:2] | t.linalg.lstsq(a, a[:, 0] ** 2).solution
tuple(t.linalg.lstsq(a, a.exp())) | t.linalg.lstsq(q, b, driver='gels')
t.linalg.lstsq(z.mT, z.mT[..., :1].exp()).solution | t.linalg.lstsq(a, a.exp(), driver='gelss')[2:]
t.linalg.cond(q) | t.linalg.cond(a, 2) | t.linalg.cond(f, -2) | t.linalg.cond(q, 'nuc')
t.linalg.cond(q.detach(), 1) | t.linalg.cond(f.detach(), INF) | t.linalg.cond(f.detach(), -1)
t.linalg.cond(t.zeros(2, 2).double(), 1) | t.linalg.cond(q.detach(), 'fro')
t.linalg.matrix_exp(q) | f.matrix_exp() | t.matrix_exp(q * 9) | t.matrix_exp(q * 1e-3)
t.matrix_exp(t.zeros(2, 2)) | t.matrix_exp(t.zeros(0, 0)) | t.matrix_exp(t.triu(q, 1))
t.linalg.tensorinv(f.reshape(2, 3, 4, 4)[0, 0].reshape(2, 2, 4), 2) | t.linalg.tensorinv(q, 1)
t.linalg.tensorsolve(q.reshape(2, 2, 4), b[:2])
t.linalg.tensorsolve(q.reshape(2, 4, 2), v.reshape(2, 2), dims=(1,))
t.linalg.vander(v) | t.linalg.vander(b, N=3) | t.vander(v.detach()) | t.vander(v.detach(), 3, True)
t.vander(v, N=0) | t.linalg.vander(t.tensor([2, 3])) | t.linalg.vander(v, N=6) | t.vander(v, 1)
t.linalg.matrix_norm(a, 2) | t.linalg.matrix_norm(f, -2) | t.linalg.matrix_norm(w, 'nuc')
t.linalg.matrix_norm(f, 'nuc', (1, 0), keepdim=True) | t.linalg.norm(a, 2) | t.linalg.norm(q, 'nuc')
t.linalg.matrix_power(q, -1) | t.matrix_power(f, -3) | q.matrix_power(-2)
t.norm(a, 'nuc') | a.norm('nuc') | t.nuclear_norm(q) | t.frobenius_norm(a, (0, 1))
t.linalg.diagonal(f) | t.linalg.diagonal(f, offset=1, dim1=0, dim2=1)
t.linalg.eigvalsh(t.zeros(0, 0)) | t.linalg.svdvals(t.zeros(0, 3))
t.linalg.cholesky(t.zeros(0, 0))
"""
TEXTS = [part.strip() for line in CALLS.strip().splitlines() for part in line.split(" | ")]


def operands(peer: Any) -> dict[str, np.ndarray]:
    normal = lambda *shape: peer.random.standard_normal(shape)  # noqa: E731
    unit = np.eye(4)
    p, h = normal(4, 4), normal(2, 4, 4)
    return {
        "q": normal(4, 4) + 2 * unit, "f": normal(2, 3, 4, 4) + 3 * unit, "p": p @ p.T + unit,
        "h": h @ h.swapaxes(1, 2) + unit, "a": normal(5, 3), "w": normal(3, 5), "b": normal(4, 2),
        "g": normal(3, 4, 2), "v": normal(4), "c": normal(2, 4, 2), "z": normal(2, 3, 4, 5),
    }  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_values_and_gradients(peer: Any, text: str) -> None:
    arrays = operands(peer)

    def call(t: Any, *tensors: Any) -> Any:
        return eval(text, {"t": t, "INF": INF, **dict(zip(arrays, tensors, strict=True))})

    peer.function(call, *arrays.values(), modes=["eager"], bound=1e-8)


def test_float32_is_kept(peer: Any) -> None:
    def call(t: Any, q: Any) -> Any:
        values = (q @ q.T + 4 * t.eye(4)).cholesky(), t.linalg.inv(q), t.linalg.det(q)
        return *values, *t.linalg.lu(q), t.linalg.svdvals(q), t.linalg.pinv(q), t.matrix_exp(q)

    q = peer.normal(4, 4) + 3 * np.eye(4, dtype=np.float32)
    peer.function(call, q, modes=["eager"], bound=2e-5)


def test_second_derivatives(peer: Any) -> None:
    def call(t: Any, q: Any, p: Any) -> Any:
        total = (
            t.linalg.inv(q).sum() + q.det() + p.cholesky().sin().sum()
            + t.linalg.qr(q).R.sin().sum() + t.linalg.svdvals(q).sin().sum()
            + t.linalg.eigh(p)[1].pow(4).sum() + q.logdet().nan_to_num()
            + t.linalg.solve(q, p).sin().sum() + t.linalg.lu(q)[2].sin().sum()
            + t.matrix_exp(q).sum()
            + t.linalg.pinv(q[:, :2]).sin().sum()
        )  # fmt: skip
        return t.autograd.grad(total, (q, p), create_graph=True)

    arrays = operands(peer)
    peer.function(call, arrays["q"], arrays["p"], modes=["eager"], bound=1e-7)


REFUSED = """
t.linalg.inv(a) | t.linalg.inv(v) | t.linalg.inv(q.long()) | t.linalg.inv(q.half())
t.linalg.inv(t.zeros(2, 2)) | t.linalg.inv(t.stack([t.eye(2), t.zeros(2, 2)]))
t.linalg.solve(t.zeros(2, 2), t.ones(2)) | t.linalg.solve(q, a) | t.linalg.solve(a, a)
t.linalg.solve(q, v, left=False) | t.linalg.solve(q, b.float()) | t.linalg.det(a) | t.slogdet(v)
t.linalg.cholesky(-p) | t.linalg.cholesky(a) | t.linalg.cholesky(-h) | t.linalg.qr(v)
t.linalg.cholesky_ex(-p, check_errors=True) | t.linalg.inv_ex(t.zeros(2, 2), check_errors=True)
t.linalg.qr(q, 'foo') | t.linalg.svd(v) | t.linalg.eigh(a) | t.linalg.eigh(q, UPLO='X')
t.linalg.lu_factor_ex(t.zeros(2, 2), check_errors=True) | t.linalg.lu(v)
t.linalg.lstsq(a, b) | t.linalg.lstsq(a, a.float()) | t.linalg.lstsq(a, a, driver='foo')
t.linalg.cond(q, 3) | t.linalg.cond(a, 1) | t.linalg.matrix_rank(v) | t.linalg.pinv(v)
t.linalg.pinv(a, hermitian=True) | t.linalg.tensorinv(q, 0) | t.linalg.tensorinv(a, 1)
t.linalg.tensorsolve(a, v) | t.linalg.vander(v, N=1) | t.vander(q) | t.vander(v, -1)
t.linalg.householder_product(w, v) | t.linalg.solve_triangular(q, a, upper=True)
t.matrix_exp(a) | t.linalg.matrix_power(t.zeros(2, 2), -1) | t.eig(q) | t.symeig(q)
t.lstsq(a, a) | t.solve(b, q) | t.matrix_rank(q) | t.linalg.matrix_norm(a, 3)
t.geqrf(q)[0].sum().backward() | t.linalg.qr(a, 'complete')[0].sum().backward()
t.linalg.svd(q, driver='gesvd')
"""


@pytest.mark.parametrize("text", [part.strip() for line in REFUSED.strip().splitlines()
                                  for part in line.split(" | ")])  # fmt: skip
def test_what_pytorch_refuses(peer: Any, text: str) -> None:
    arrays = operands(peer)

    def call(t: Any) -> Any:
        names = {name: t.tensor(array).requires_grad_() for name, array in arrays.items()}
        return eval(text, {"t": t, **names})

    peer.refusal(call)


def test_geqrf(peer: Any) -> None:
    a = operands(peer)["a"]
    peer.function(lambda t, a: tuple(t.geqrf(a.detach())), a, modes=["eager"], bound=1e-8)

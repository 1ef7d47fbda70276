"""Complex numbers beside PyTorch's: values, and gradients (conjugate Wirtinger derivatives)."""

from __future__ import annotations

import numpy as np
import pytest

import frontend
from tests.frontend.peers.expressions import agree, evaluated

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(0)
PARTS = RANDOM.standard_normal((2, 2, 3, 4))
X, Y = (
    PARTS[0] + 1j * PARTS[1],
    RANDOM.standard_normal((3, 4)) + 1j * RANDOM.standard_normal((3, 4)),
)

# x: [2, 3, 4], y: [3, 4]; both complex128 and differentiable. Expressions, apart by |.
CASES = """
x + y | x - y | x * y | x / y | x + 1 | x * 2j | 1 / x | x + y.real | y.real * x | 2j - x
x ** y | x ** 2 | x ** 0.5 | x ** 3.3 | x ** (1 + 2j) | 2 ** x | t.sqrt(x) | t.rsqrt(x) | x.square()
t.exp(x) | t.exp2(x) | t.expm1(x) | t.log(x) | t.log2(x) | t.log10(x) | t.log1p(x) | -x | +x
t.sin(x) | t.cos(x) | t.tan(x) | t.sinh(x) | t.cosh(x) | t.tanh(x) | t.sigmoid(x) | t.sinc(x)
t.asin(x) | t.acos(x) | t.atan(x) | t.asinh(x) | t.acosh(x) | t.atanh(x) | t.reciprocal(x)
x.abs() | x.angle() | x.real | x.imag | t.sgn(x) | t.conj_physical(x) | t.angle(x.real)
t.real(y.real) | t.view_as_real(x) | x.conj() * y | (x * x.conj()).real | t.isreal(x)
x.imag.resolve_neg() | y.resolve_conj()
t.complex(x.real, x.imag * 2) | t.polar(x.abs(), x.real)
t.view_as_complex(t.stack([x.real, x.imag], -1))
x.sum() | x.sum(1) | x.mean((0, 2)) | x.prod(2) | x.cumsum(1) | x.cumprod(2) | x.var(1) | x.std()
x @ y.T | x @ y.mH | y.H | y.adjoint() | t.einsum("bij,ij->b", x, y) | t.dot(y[0], y[1])
t.vdot(y[0], y[1]) | t.outer(y[0], y[1]) | t.addmm(y[:, :3], y, y.T) | t.inner(x, y) | t.kron(y, y)
x.reshape(6, 4) | x.permute(2, 0, 1) | t.cat([x, x]) | t.stack([y, y]) | x[1:, ::2] | x[:, [0, 2]]
x[x.real > 0] | t.where(x.real > 0, x, y) | x.gather(1, t.tensor([[[0], [1]]])) | x.flip(0)
y.tril() | x.logcumsumexp(1) | (x * 9).logcumsumexp(0) | t.exp(y.logcumsumexp(1))
x.masked_fill(x.real > 0, 1j) | t.nn.functional.pad(x, (1, 1)) | y.roll(1) | y[:, :3].trace()
x.norm() | t.linalg.vector_norm(x, 1, dim=1) | t.linalg.matrix_norm(x)
t.addcmul(x, x, y, value=0.5)
t.addcdiv(x, x, y) | t.lerp(x, y, 0.3) | x.index_add(1, t.tensor([0]), y[:1].expand(2, 1, 4))
t.cov(y)
y.to(t.complex64) | y.real.to(t.complex128) | y.clone().mul_(2j).add_(y)
t.linalg.vecdot(x, y).real
t.nn.functional.conv1d(x, x[:, :, :2]) | t.nn.functional.linear(x, y) | x.diff() | t.trapezoid(x)
x == y | x != x | x.isnan() | x.isinf() | x.isfinite() | t.isclose(x, x) | x.count_nonzero()
x.any()
t.full((2,), 1 + 2j) | t.eye(2, dtype=t.complex64) | t.tensor([1, 2j]) | t.ones_like(x)
y.nonzero()
t.linspace(0, 1, 3, dtype=t.complex64) | t.zeros(2, dtype=t.cdouble) | t.tensor(3).to(t.cfloat) + 1j
"""
SQUARE = """
t.linalg.inv(a) | t.linalg.solve(a, b) | t.linalg.det(a) | t.linalg.slogdet(a)[0]
t.linalg.slogdet(a)[1]
t.linalg.cholesky(h) | t.linalg.qr(a)[0] | t.linalg.qr(a)[1] | t.linalg.eigh(h)[0]
t.linalg.svdvals(a)
t.linalg.eigh(h)[1][..., 0].abs() | t.linalg.svd(a[..., :2], False)[0].abs()
t.linalg.pinv(a[..., :2])
t.linalg.lstsq(a, b)[0] | t.linalg.lu(a)[1] | t.matrix_exp(a) | t.linalg.matrix_power(a, -2)
t.linalg.solve_triangular(a, b, upper=True) | t.linalg.eigvals(a).abs().sum() | t.linalg.cond(a)
t.linalg.householder_product(a[..., :2], b[..., 0, :2]) | t.cholesky_solve(b, t.linalg.cholesky(h))
(lambda w, v: (v * w.exp()[..., None, :]) @ t.linalg.inv(v))(*t.linalg.eig(a))
(lambda w, v: (v * w.exp()[..., None, :]) @ t.linalg.inv(v))(*t.linalg.eig(a.real))
"""
ERRORS = """
x.floor() | x < y | x.max() | x.clamp(0, 1) | x.sign() | x.relu() | t.atan2(x, y) | x.round()
x.sort()
x.sum().backward() | t.arange(3, dtype=t.complex64) | t.imag(y.real) | t.view_as_real(y.real)
t.complex(y.real, y.real.float()) | t.view_as_complex(y.real) | t.tensor(1j, dtype=t.float32)
y.real * x > 1
"""


def cases(table: str) -> list[str]:
    return [case.strip() for line in table.strip().splitlines() for case in line.split("|")]


@pytest.mark.parametrize("line", CASES.strip().splitlines())
def test_functions(line: str) -> None:
    for source in cases(line):
        agree(source, {"x": X, "y": Y})


@pytest.mark.parametrize("line", SQUARE.strip().splitlines())
def test_matrices(line: str) -> None:
    random = np.random.default_rng(2)
    a, b = (random.standard_normal((2, 3, 6)).view(np.complex128) for _ in range(2))
    for source in cases(line):
        agree(source, {"a": a, "b": b})


def test_errors() -> None:
    for source in cases(ERRORS):
        with pytest.raises(Exception) as theirs:
            evaluated(torch, source, {"x": X, "y": Y})
        with pytest.raises(Exception) as ours:
            evaluated(frontend, source, {"x": X, "y": Y})
        assert isinstance(ours.value, (RuntimeError, theirs.type)), source


@pytest.mark.parametrize(
    "source",
    [
        "t.tensor([1 + 2j, -0.5j])", "t.tensor([[100j, 1.25]])", "t.tensor(2 + 0j)",
        "t.tensor([1e-8 + 1e8j, 3])", "t.tensor([], dtype=t.complex64)",
        "t.tensor([1j], dtype=t.complex128)", "t.tensor([complex('nan'), complex('inf')])",
        "t.complex64.is_complex, t.complex64.is_floating_point, t.complex64.itemsize",
        "t.complex64.to_real(), t.float64.to_complex(), t.finfo(t.complex128).eps",
        "t.result_type(t.ones(1), 1j), t.result_type(t.ones(1).double(), t.tensor(1j))",
        "t.promote_types(t.complex64, t.float64), t.can_cast(t.complex64, t.float32)",
        "t.tensor(1j).item(), t.tensor([1j]).tolist(), t.is_complex(t.ones(1))",
        "t.ones(2).type(t.complex64).type(), t.zeros(1).new_full((2,), 1j, dtype=t.cfloat)",
    ],
)  # fmt: skip
def test_texts_and_questions(source: str) -> None:
    ours, theirs = (repr(eval(source, {"t": system})) for system in (frontend, torch))
    assert ours == theirs

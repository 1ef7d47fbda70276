"""Linear algebra against NumPy and numeric gradients: values, first and second derivatives where
PyTorch has none or is not installed; what a trace says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.autograd import gradcheck, gradgradcheck

RANDOM = np.random.default_rng(0)


def drawn(*shape: int, shift: float = 0.0) -> Any:
    array = RANDOM.standard_normal(shape)
    return torch.tensor(array + shift * np.eye(*shape[-2:]), requires_grad=True)


def definite(size: int) -> Any:
    array = RANDOM.standard_normal((2, size, size))
    return torch.tensor(array @ array.swapaxes(1, 2) + np.eye(size), requires_grad=True)


def symmetric(x: Any) -> Any:
    return (x + x.mT) / 2


SQUARE = {
    "inv": torch.linalg.inv,
    "det": torch.linalg.det,
    "slogdet": lambda x: torch.linalg.slogdet(x)[1],
    "solve": lambda x: torch.linalg.solve(x, x * x),
    "upper": lambda x: torch.linalg.solve_triangular(x, x * x, upper=True),
    "lower": lambda x: torch.linalg.solve_triangular(x, x * x, upper=False, unitriangular=True),
    "cholesky": lambda x: torch.linalg.cholesky(symmetric(x @ x.mT)),
    "qr": torch.linalg.qr,
    "lu": lambda x: torch.linalg.lu(x)[1:],
    "lu without pivots": lambda x: torch.linalg.lu(x, pivot=False)[1:],
    "svd": lambda x: (lambda u, s, vh: (s, u[..., :1] @ vh[..., :1, :]))(*torch.linalg.svd(x)),
    "eigh": lambda x: (lambda v, q: (v, q * q))(*torch.linalg.eigh(symmetric(x))),
    "pinv": lambda x: torch.linalg.pinv(x[..., :2]),
    "matrix_exp": torch.linalg.matrix_exp,
    "cond": lambda x: torch.linalg.cond(x, "fro"),
    "cond of 1": lambda x: torch.linalg.cond(x, 1),
    "vander": lambda x: torch.linalg.vander(x[..., 0], N=4),
    "vander of a vector": lambda x: torch.vander(x[0, 0]),
    "nuclear": lambda x: torch.linalg.matrix_norm(x, "nuc"),
    "householder": lambda x: torch.linalg.householder_product(x, x[..., 0, :]),
    "power": lambda x: torch.linalg.matrix_power(x, -2),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", SQUARE)
def test_gradients(name: str) -> None:
    function: Callable[..., Any] = SQUARE[name]
    x = drawn(2, 3, 3, shift=2.5)
    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("shape", [(4, 2), (2, 4)])
@pytest.mark.parametrize("name", ["qr", "lu", "svdvals", "pinv"])
def test_gradients_of_what_is_not_square(name: str, shape: tuple[int, int]) -> None:
    call = {"lu": lambda x: torch.linalg.lu(x)[1:]}.get(name, getattr(torch.linalg, name))
    x = drawn(*shape)
    assert gradcheck(call, (x,))
    assert gradgradcheck(call, (x,))


def test_the_gradient_of_the_determinant_of_a_singular_matrix_is_its_cofactors() -> None:
    x = RANDOM.standard_normal((3, 3))
    x[2] = 0
    a = torch.tensor(x, requires_grad=True)
    a.det().backward()
    cofactors = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            minor = np.delete(np.delete(x, i, 0), j, 1)
            cofactors[i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    np.testing.assert_allclose(a.grad.numpy(), cofactors, atol=1e-12)


def test_least_squares_leaves_the_least_residual() -> None:
    a, b = drawn(6, 3), drawn(6, 2)
    answer = torch.linalg.lstsq(a, b, driver="gelsd")
    expected = np.linalg.lstsq(a.detach().numpy(), b.detach().numpy(), rcond=None)
    for mine, theirs in zip(answer, expected[:4]):
        np.testing.assert_allclose(mine.detach().numpy(), theirs, atol=1e-12)
    compiled = torch.compile(lambda a, b: tuple(torch.linalg.lstsq(a, b, driver="gels")))
    for mine, theirs in zip(compiled(a.detach(), b.detach())[:2], expected[:2]):
        np.testing.assert_allclose(mine.numpy(), theirs, atol=1e-12)


def test_pivoted_elimination_of_what_is_singular() -> None:
    lower, upper = torch.linalg.lu(torch.zeros(3, 3))[1:]
    assert torch.equal(lower, torch.eye(3)) and not upper.any()
    assert torch.linalg.lu_factor_ex(torch.tensor([[1.0, 2], [2, 4]])).info == 2
    inverse, info = torch.linalg.inv_ex(torch.stack([torch.eye(2), torch.zeros(2, 2)]))
    assert info.tolist() == [0, 1] and torch.equal(inverse[0], torch.eye(2))


def test_a_factor_that_does_not_exist_says_where() -> None:
    broken = torch.stack([torch.eye(3), torch.diag(torch.tensor([1.0, -1, 1]))])
    with pytest.raises(torch.linalg.LinAlgError, match=r"element 1.*minor of order 2"):
        torch.linalg.cholesky(broken)
    with pytest.raises(torch.linalg.LinAlgError, match="element 2 is zero"):
        torch.linalg.inv(torch.tensor([[1.0, 2], [2, 4]]))


def every_factor(x: Any) -> Any:
    """A number and its gradient, through all that LAPACK does here."""
    linalg = torch.linalg
    x = x.detach().requires_grad_()
    u, s, vh = linalg.svd(x)
    values, vectors = linalg.eigh(x + x.mT)
    parts = (
        linalg.cholesky(x @ x.mT + torch.eye(3)), linalg.solve(x, x * x), linalg.inv(x),
        s * (u[..., 0] * vh[..., 0, :]), values, vectors.abs(), linalg.qr(x).R, linalg.lu(x).U,
        linalg.matrix_exp(x), linalg.pinv(x), linalg.lstsq(x, x * 2).solution, linalg.det(x),
        linalg.slogdet(x)[1], linalg.solve_triangular(x, x * x, upper=True),
        linalg.ldl_solve(*linalg.ldl_factor((x + x.mT).detach()), x), linalg.matrix_rank(x),
    )  # fmt: skip
    total = sum(part.sum() for part in parts)
    total.backward()
    return total.detach(), x.grad


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_compiled_code_calls_the_same_lapack(dtype: Any) -> None:
    x = (drawn(2, 3, 3).detach() + 2 * torch.eye(3)).to(dtype)
    eager = every_factor(x)
    for got, want in zip(torch.compile(every_factor)(x), eager):
        np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_the_gradient_of_a_compiled_solution_from_outside() -> None:
    weight, x = drawn(3, 3, shift=3.0), drawn(3, 1)
    torch.compile(lambda x: torch.linalg.solve(weight, x).sum())(x).backward()
    got = weight.grad.numpy().copy(), x.grad.numpy().copy()
    weight.grad = x.grad = None
    torch.linalg.solve(weight, x).sum().backward()
    np.testing.assert_allclose(got[0], weight.grad.numpy(), rtol=1e-13)
    np.testing.assert_allclose(got[1], x.grad.numpy(), rtol=1e-13)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (torch.linalg.inv, "inversion could not be completed"),
        (lambda x: torch.linalg.solve(x, x), "the input matrix is singular"),
        (torch.linalg.cholesky, "is not positive-definite"),
        (lambda x: torch.linalg.svdvals(x / x), "failed to converge"),
    ],
)
def test_a_compiled_failure_comes_before_any_write(function: Any, text: str) -> None:
    state = torch.zeros(2, 2)

    @torch.compile
    def step(x: Any) -> None:
        state.add_(function(x))

    with pytest.raises(torch.linalg.LinAlgError, match=text):
        step(torch.zeros(2, 2))
    assert not state.any()


def test_determinants_of_singular_matrices_in_a_batch() -> None:
    x = torch.stack([torch.eye(2) * 2, torch.ones(2, 2)]).double().requires_grad_()
    (eager,) = torch.autograd.grad(torch.linalg.det(x).sum(), x)
    compiled = torch.compile(lambda y: torch.autograd.grad(torch.linalg.det(y).sum(), y)[0])
    expected = [[[2, 0], [0, 2]], [[1, -1], [-1, 1]]]
    np.testing.assert_allclose(eager.numpy(), expected, atol=1e-14)
    np.testing.assert_allclose(compiled(x).detach().numpy(), expected, atol=1e-14)


def test_types_of_factors_without_data() -> None:
    x = torch.empty(5, 3, 4, device="meta")
    shapes = [tuple(part.shape) for part in torch.linalg.svd(x)]
    assert shapes == [(5, 3, 3), (5, 3), (5, 4, 4)]
    assert torch.linalg.svd(x).S.is_meta


def test_hermitian_factors() -> None:
    array = RANDOM.standard_normal((4, 4)) + 1j * RANDOM.standard_normal((4, 4))
    x, b = torch.tensor(array + array.conj().T), torch.tensor(array)
    solution = torch.linalg.ldl_solve(
        *torch.linalg.ldl_factor(x, hermitian=True), b, hermitian=True
    )
    np.testing.assert_allclose((x @ solution).numpy(), array, atol=1e-12)
    solution = torch.linalg.ldl_solve(*torch.linalg.ldl_factor(b + b.mT), b)
    np.testing.assert_allclose(((b + b.mT) @ solution).numpy(), array, atol=1e-12)
    u, s, v = torch.svd(b)
    np.testing.assert_allclose((u * s @ v.mH).numpy(), array, atol=1e-12)


def test_what_needs_no_lapack_is_compiled() -> None:
    x, tau = drawn(2, 4, 3).detach(), torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    function = torch.compile(torch.linalg.householder_product)
    expected = torch.linalg.householder_product(x, tau.expand(2, 3))
    np.testing.assert_allclose(function(x, tau.expand(2, 3)).numpy(), expected.numpy(), atol=1e-14)


def test_low_rank_approximations() -> None:
    torch.manual_seed(0)
    x = drawn(9, 3).detach() @ drawn(3, 7).detach()
    u, s, v = torch.svd_lowrank(x, q=3)
    np.testing.assert_allclose((u * s @ v.mT).numpy(), x.numpy(), atol=1e-10)
    u, s, v = torch.pca_lowrank(x.T, q=3)
    centred = x.T - x.T.mean(0, keepdim=True)
    np.testing.assert_allclose((u * s @ v.mT).numpy(), centred.numpy(), atol=1e-10)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0)])
def test_batches_of_nothing(shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape)
    assert torch.linalg.inv_ex(x).inverse.shape == shape
    assert torch.linalg.cholesky_ex(x).L.shape == shape
    assert torch.linalg.lu(x).U.shape == shape


def test_upper_cholesky_reads_the_upper_triangle() -> None:
    a = torch.tensor([[4.0, 2.0], [99.0, 5.0]], requires_grad=True)
    factor = torch.linalg.cholesky(a, upper=True)
    np.testing.assert_allclose(factor.detach().numpy(), [[2, 1], [0, 2]])
    factor.sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), a.grad.numpy().T)
    info = torch.linalg.cholesky_ex(torch.tensor([[1.0, 2j], [-2j, 1.0]])).info
    assert info.item() == 2


def test_the_infos_of_lu_have_a_name() -> None:
    a = torch.tensor([[[2.0, 1.0], [4.0, 3.0]], [[1.0, 2.0], [2.0, 4.0]]])
    with_infos = torch.lu(a, get_infos=True)
    assert type(with_infos) is torch.return_types._lu_with_info
    assert with_infos.info.tolist() == [0, 2] and with_infos.info.dtype == torch.int32
    both, pivots = torch.lu(a)
    assert type(torch.lu(a)) is tuple
    np.testing.assert_array_equal(with_infos.LU.numpy(), both.numpy())
    np.testing.assert_array_equal(with_infos.pivots.numpy(), pivots.numpy())


@pytest.mark.parametrize("pivot", [0, 4])
def test_pivots_that_name_no_row(pivot: int) -> None:
    pivots = torch.tensor([1, pivot, 3], dtype=torch.int32)
    for unpack in (torch.lu_unpack, torch.compile(torch.lu_unpack)):
        with pytest.raises(IndexError, match="rows are 1 to 3"):
            unpack(torch.eye(3), pivots)


def test_the_rank_of_a_matrix_that_several_right_sides_share() -> None:
    random = np.random.default_rng(3)
    a, b = (torch.tensor(random.standard_normal((count, 4, 3))) for count in (1, 2))
    found = torch.linalg.lstsq(a, b, driver="gelsd")
    assert found.solution.shape == (2, 3, 3)
    assert found.rank.tolist() == [3] and found.singular_values.shape == (1, 3)

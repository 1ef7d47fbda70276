"""Products against NumPy in float64: every rank, einsum, chains, norms; gradients; refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.functions import einsum as einsum_module

RANDOM = np.random.default_rng(0)


def draw(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape)


def agree(call: Callable[..., Any], want: Any, *arrays: np.ndarray) -> None:
    tensors = [torch.tensor(array) for array in arrays]
    for run in (call, torch.compile(call)):
        np.testing.assert_allclose(run(*tensors).numpy(), want, 1e-12, 1e-13)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "shapes",
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)),
     ((2, 3), (5, 3, 4)), ((6, 1, 2, 3), (5, 3, 4)), ((0, 3), (3, 2)), ((2, 0), (0, 3))],
    ids=str,
)  # fmt: skip
def test_matmul(shapes: Any) -> None:
    x, y = draw(*shapes[0]), draw(*shapes[1])
    agree(torch.matmul, x @ y, x, y)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("text", "shapes"),
    [("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]), ("ii->i", [(3, 3)]),
     ("iji->j", [(3, 2, 3)]), ("ba", [(2, 3)]), ("i,j->ji", [(2,), (3,)]),
     ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]), ("bi,bi->b", [(4, 3), (4, 3)]),
     ("...ij,jk->...ik", [(5, 2, 3), (3, 4)]), ("i...->...", [(2, 3, 4)]),
     ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]), ("i,ij,j->", [(2,), (2, 3), (3,)]),
     ("ab,ab,ab->a", [(2, 3)] * 3), ("ij,ik,il->jkl", [(2, 3), (2, 4), (2, 5)]),
     ("ij,jk->ik", [(2, 0), (0, 3)]), (",ij->", [(), (2, 3)])],
)  # fmt: skip
def test_einsum(text: str, shapes: Any) -> None:
    arrays = [draw(*shape) for shape in shapes]
    agree(lambda *xs: torch.einsum(text, *xs), np.einsum(text, *arrays), *arrays)
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    if all(array.size for array in arrays):
        assert torch.autograd.gradcheck(lambda *xs: torch.einsum(text, *xs), tensors)


def test_einsum_broadcasts_ones_and_takes_lists() -> None:
    x, y = draw(2, 1), draw(2, 5)
    agree(lambda x, y: torch.einsum("ij,ij->i", x, y), (x * y).sum(1), x, y)
    agree(lambda x, y: torch.einsum(x, [0, 1], y, [0, 2], [2, ...]), (x * y).sum(0), x, y)
    agree(lambda x, y: torch.einsum("ij,ik->jk", [x, y]), x.T @ y, x, y)


def test_einsum_multiplies_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of operands become matrix products; three are contracted in the cheaper order."""
    seen = []
    real = einsum_module.product

    def product(x: Any, y: Any) -> Any:
        seen.append((tuple(x.shape), tuple(y.shape)))
        return real(x, y)

    monkeypatch.setattr(einsum_module, "product", product)
    torch.einsum("bhqd,bhkd->bhqk", torch.ones(2, 3, 4, 5), torch.ones(2, 3, 6, 5))
    assert seen == [((6, 4, 5), (6, 5, 6))]
    seen.clear()
    torch.einsum("ij,jk,kl->il", torch.ones(50, 40), torch.ones(40, 30), torch.ones(30, 1))
    assert seen[0] == ((40, 30), (30, 1)) or seen[0] == ((1, 30), (30, 40))
    seen.clear()
    torch.einsum("bi,bi->b", torch.ones(9, 4), torch.ones(9, 4))
    assert not seen


def test_relatives_of_einsum() -> None:
    x, y = draw(2, 3, 4), draw(4, 3)
    agree(lambda x, y: torch.tensordot(x, y, 1), np.tensordot(x, y, 1), x, y)
    agree(lambda x, y: torch.tensordot(x, y, ([2, 1], [0, 1])),
          np.tensordot(x, y, ([2, 1], [0, 1])), x, y)  # fmt: skip
    agree(torch.kron, np.kron(x, y), x, y)
    agree(torch.inner, np.inner(x[0].T, y), np.ascontiguousarray(x[0].T), y)


def test_sums_of_products() -> None:
    c, a, b = draw(2, 4), draw(2, 3), draw(3, 4)
    agree(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), 0.5 * c + 2 * a @ b, c, a, b)
    agree(lambda c, a, b: torch.addmm(c / 0, a, b, beta=0), a @ b, c, a, b)
    agree(lambda c, a, b: torch.addr(c, a[:, 0], b[0], alpha=3), c + 3 * np.outer(a[:, 0], b[0]),
          c, a, b)  # fmt: skip
    f, g = draw(5, 2, 3), draw(5, 3, 4)
    agree(lambda c, f, g: torch.addbmm(c, f, g), c + (f @ g).sum(0), c, f, g)
    agree(lambda c, f, g: c.expand(5, 2, 4).baddbmm(f, g, alpha=2), c + 2 * f @ g, c, f, g)
    x = torch.tensor(c, requires_grad=True)
    torch.addmm(x, torch.tensor(a), torch.tensor(b), beta=0).sum().backward()
    assert not x.grad.any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_half_types_are_rounded_once(dtype: str) -> None:
    """beta · input alone is more than f16 holds."""
    kind = getattr(torch, dtype)
    x, row = torch.full((1, 1), 0.5, dtype=kind), torch.full((1, 2), 0.5, dtype=kind)

    def summed(x: Any, row: Any) -> Any:
        return torch.addmm(x, row, row.t(), beta=1e6, alpha=-1e6 + 4)

    for function in (summed, torch.compile(summed)):
        result = function(x, row)
        assert result.dtype is kind and result.item() == 2.0


def test_chains_and_powers() -> None:
    a, b, c = draw(2, 30), draw(30, 3), draw(3, 40)
    agree(torch.chain_matmul, a @ b @ c, a, b, c)
    agree(lambda *xs: torch.linalg.multi_dot(xs), a[0] @ b @ c, a[0].copy(), b, c)
    q = draw(2, 3, 3)
    for power in (0, 1, 2, 7):
        want = np.linalg.matrix_power(q, power)
        agree(lambda q, n=power: torch.matrix_power(q, n), want, q)
    inverse = torch.matrix_power(torch.tensor(q), -2).numpy()
    np.testing.assert_allclose(inverse, np.linalg.matrix_power(q, -2), rtol=1e-3)


def test_cross_products_and_traces() -> None:
    x, y = draw(4, 3), draw(1, 3)
    agree(torch.linalg.cross, np.cross(x, y), x, y)
    agree(lambda x, y: torch.cross(x.T, y.T), np.cross(x, y).T, x, y)
    agree(lambda x: torch.trace(x), np.trace(x), x)
    assert torch.tensor([[1, 2], [3, 4]]).trace().item() == 5


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ord", [None, "fro", 1, -1, np.inf, -np.inf])
def test_matrix_norms(ord: Any) -> None:
    x = draw(4, 3)
    agree(lambda x: torch.linalg.norm(x, ord), np.linalg.norm(x, ord), x)
    batch = draw(2, 4, 3)
    want = np.linalg.norm(batch, "fro" if ord is None else ord, axis=(0, 2), keepdims=True)
    kind = "fro" if ord is None else ord
    agree(lambda x: torch.linalg.matrix_norm(x, kind, (0, 2), True), want, batch)


@pytest.mark.parametrize("order", [-3, 0.5, 3, 100, 2**31])
def test_the_norm_of_one_element_is_its_magnitude(order: float) -> None:
    """Of every order, also where powers of it are infinite or 0."""
    x = torch.tensor([[-3.75], [0.0], [1e-30]], requires_grad=True)
    norms = torch.linalg.vector_norm(x, order, dim=1)
    assert norms.tolist() == x.abs()[:, 0].tolist()
    assert torch.autograd.grad(norms.sum(), x)[0].tolist() == [[-1.0], [0.0], [1.0]]
    assert torch.norm(x[0, 0], order).item() == 3.75


def test_vector_norms() -> None:
    x = draw(4, 3)
    for order in (0, 1, 2.5, np.inf):
        want = np.linalg.norm(x, order, 1)
        agree(lambda x, p=order: torch.linalg.vector_norm(x, p, dim=1), want, x)
    agree(lambda x: torch.linalg.vecdot(x, x), (x * x).sum(1), x)
    for order in (2, -2, "nuc"):
        norm = torch.linalg.norm(torch.tensor(x[:2, :2]), order).item()
        np.testing.assert_allclose(norm, np.linalg.norm(x[:2, :2], order), rtol=1e-5)


REFUSED = [
    (lambda a: a @ a, r"cannot be multiplied \(2x3 and 2x3\)"),
    (lambda a: a @ a[0, :2], r"size mismatch, got input \(2\)"),
    (lambda a: a @ a.T.float(), "same dtype, but got: double != float"),
    (lambda a: torch.dot(a, a), "1D tensors expected"),
    (lambda a: torch.mv(a, a), "vector"),
    (lambda a: torch.bmm(a, a), "batch1 must be a 3D tensor"),
    (lambda a: torch.inner(a, a[:, :2]), "last dimension must match"),
    (lambda a: torch.tensordot(a, a, 1), "contracted dimensions need to match"),
    (lambda a: torch.einsum("ii", a), "subscript i is repeated for operand 0 but the sizes don't"),
    (lambda a: torch.einsum("ij->ik", a), "output subscript k does not appear"),
    (lambda a: torch.einsum("ij,jk", a, a), "j has size 2 for operand 1"),
    (lambda a: torch.einsum("ij,ij", a), "fewer operands"),
    (lambda a: torch.einsum("i.j", a), "not part of any ellipsis"),
    (lambda a: torch.einsum("i1", a), "invalid subscript '1'"),
    (lambda a: torch.matrix_power(a, 2), "2 by 3 matrices"),
    (lambda a: torch.linalg.cross(a[:, :2], a[:, :2]), "must have length 3"),
    (lambda a: torch.linalg.norm(a, 3), "Order 3 not supported"),
    (lambda a: torch.chain_matmul(a, a[0]), "dimension is 1, expected 2"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[text for _, text in REFUSED])
def test_what_does_not_fit(call: Callable[..., Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call(torch.ones(2, 3, dtype=torch.float64))


@pytest.mark.parametrize("beta", [1, 0, 2, True, False])
@pytest.mark.parametrize("alpha", [1, 0, 3, True, False])
def test_addr_of_bools_is_bool(alpha: int, beta: int) -> None:
    c = np.array([[False, True, True], [True, True, False]])
    u, v = np.array([True, False]), np.array([True, True, False])
    result = torch.addr(
        torch.tensor(c), torch.tensor(u), torch.tensor(v), alpha=alpha, beta=beta
    )  # fmt: skip
    want = (c & bool(beta)) | (np.outer(u, v) & bool(alpha))
    assert result.dtype is torch.bool and result.tolist() == want.tolist()

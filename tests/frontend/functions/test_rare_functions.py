"""Functions that few programs call, against NumPy: copies of views, fixed sizes of what depends on
values, symmetric indefinite systems, layers with what they save."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F

X = torch.arange(24.0).reshape(2, 3, 4)
VIEWS: dict[str, Any] = {
    "alias_copy": ((), lambda x: x), "detach_copy": ((), lambda x: x),
    "as_strided_copy": (((2, 2), (1, 2), 1), lambda x: x.as_strided((2, 2), (1, 2), 1)),
    "diagonal_copy": ((0, 1, 2), lambda x: x.diagonal(0, 1, 2)),
    "expand_copy": (((5, 2, 3, 4),), lambda x: x.expand(5, 2, 3, 4)),
    "narrow_copy": ((1, 1, 2), lambda x: x.narrow(1, 1, 2)),
    "permute_copy": (((2, 0, 1),), lambda x: x.permute(2, 0, 1)),
    "select_copy": ((1, 2), lambda x: x.select(1, 2)),
    "slice_copy": ((2, 1, 4, 2), lambda x: x[:, :, 1:4:2]),
    "squeeze_copy": ((), lambda x: x.squeeze()),
    "transpose_copy": ((0, 2), lambda x: x.transpose(0, 2)),
    "unfold_copy": ((2, 2, 1), lambda x: x.unfold(2, 2, 1)),
    "unsqueeze_copy": ((1,), lambda x: x.unsqueeze(1)),
    "view_copy": (((6, 4),), lambda x: x.view(6, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
def test_copies_of_views(name: str) -> None:
    arguments, view = VIEWS[name]
    copy = getattr(torch, name)(X, *arguments)
    assert torch.equal(copy, view(X))
    copy.zero_()
    assert X.sum() == 276


def test_copies_of_several_views() -> None:
    for parts, want in (
        (torch.split_copy(X, 2, 1), X.split(2, 1)), (torch.unbind_copy(X), X.unbind()),
        (torch.split_with_sizes_copy(X, [1, 3], 2), X.split([1, 3], 2)),
    ):  # fmt: skip
        assert len(parts) == len(want) and all(map(torch.equal, parts, want))
    assert torch.equal(torch.t_copy(X[0]), X[0].T)
    out = torch.empty(0)
    assert torch.view_copy(X, (24,), out=out) is out and out.shape == (24,)


@pytest.mark.parametrize("compiled", [False, True])
def test_positions_of_what_is_not_zero_in_a_fixed_number(compiled: bool) -> None:
    x = torch.tensor([[0, 3, 0], [4, 0, 5]])
    function = torch.compile(torch.nonzero_static) if compiled else torch.nonzero_static
    assert function(x, size=4).tolist() == [[0, 1], [1, 0], [1, 2], [-1, -1]]
    assert torch.nonzero_static(x, size=2, fill_value=7).tolist() == [[0, 1], [1, 0]]
    assert torch.nonzero_static(torch.tensor(1), size=2).shape == (2, 0)


def test_memory_in_another_order() -> None:
    x = torch.empty_permuted((2, 3, 4), (0, 2, 1))
    assert x.shape == (2, 3, 4) and x.stride() == (12, 1, 3)
    with pytest.raises(RuntimeError, match="Duplicate dim"):
        torch.empty_permuted((2, 3), (0, 0))
    placed = torch.as_strided_scatter(torch.zeros(3, 3), torch.tensor([1.0, 2.0]), (2,), (4,), 1)
    assert placed.tolist() == [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    of_integers = torch.as_strided_scatter(torch.zeros(2), torch.tensor([3]), (1,), (1,), 1)
    assert of_integers.dtype is torch.float32 and of_integers.tolist() == [0, 3]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_symmetric_indefinite_systems(kind: Any) -> None:
    random = np.random.default_rng(0)
    a = random.standard_normal((4, 7, 7))
    a = (a + a.swapaxes(1, 2)).astype(kind)
    a[0, range(7), range(7)] = 0  # no pivots on the diagonal
    b = random.standard_normal((4, 7, 2)).astype(kind)
    factors = torch.linalg.ldl_factor(torch.tensor(a))
    right = torch.tensor(b, requires_grad=True)
    x = torch.linalg.ldl_solve(*factors, right)
    bound = 1e-3 if kind is np.float32 else 1e-10
    np.testing.assert_allclose(a @ x.detach().numpy(), b, atol=bound)
    x.sum().backward()
    want = np.linalg.solve(a.astype(np.float64), np.ones_like(b, np.float64))
    np.testing.assert_allclose(right.grad.numpy(), want, atol=bound * 10)
    assert (factors.pivots < 0).any() and not torch.linalg.ldl_factor_ex(torch.tensor(a)).info.any()
    assert torch.linalg.ldl_factor_ex(torch.zeros(2, 2)).info.item() == 1
    with pytest.raises(torch.linalg.LinAlgError, match=r"D\[1,1\] is zero"):
        torch.linalg.ldl_factor_ex(torch.zeros(2, 2), check_errors=True)


def test_layers_with_what_they_save() -> None:
    x = torch.randn(2, 4, 6)
    result, mean, rstd = torch.native_layer_norm(x, [6], None, None, 1e-5)
    assert torch.allclose(result, (x - mean) * rstd, atol=1e-6)
    result, mean, rstd = torch.native_group_norm(x, None, None, 2, 4, 6, 2, 1e-5)
    assert mean.shape == rstd.shape == (2, 2)
    assert torch.equal(result, F.group_norm(x, 2))
    result, mean, rstd = torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
    assert torch.allclose(result, (x - mean[:, None]) * rstd[:, None], atol=1e-6)
    image, grid = torch.randn(1, 2, 3, 3), torch.rand(1, 2, 2, 2)
    want = F.grid_sample(image, grid, "nearest", "border", False)
    assert torch.equal(torch.grid_sampler(image, grid, 1, 1, False), want)
    assert torch.equal(torch.grid_sampler_2d(image, grid, 1, 1, False), want)
    kept, where = torch.native_dropout(torch.ones(1000), 0.5, True)
    assert torch.equal(kept, where * 2.0)
    weight = torch.tensor([[3.0, 4.0], [6.0, 8.0], [0.3, 0.4]])
    torch.embedding_renorm_(weight, torch.tensor([1, 2]), 1.0, 2.0)
    assert torch.allclose(weight, torch.tensor([[3.0, 4.0], [0.6, 0.8], [0.3, 0.4]]))
    theta = torch.eye(2, 3).unsqueeze(0)
    assert torch.equal(torch.affine_grid_generator(theta, [1, 1, 2, 2], False),
                       F.affine_grid(theta, [1, 1, 2, 2], False))  # fmt: skip


def test_bools_are_combined() -> None:
    x, at = torch.tensor([True, False, False]), torch.tensor([1, 1])
    both = torch.tensor([True, True])
    assert torch.scatter_add(x, 0, at, both).tolist() == [True, True, False]
    assert x.scatter_reduce(0, at, both, "prod").tolist() == [True, False, False]
    assert torch.index_put(x, (at,), both, accumulate=True).tolist() == [True, True, False]
    assert torch.tensor([True, False]).prod(dtype=torch.bool).item() is False
    assert torch.clamp_min(x, torch.tensor(True)).all()


def test_whole_numbers_in_a_row_lie_between_whole_ends() -> None:
    assert torch.logspace(0, 4.3, 8, dtype=torch.int64).tolist()[-3:] == [719, 2682, 10000]
    assert torch.linspace(4.3, -3, 5, dtype=torch.int64).tolist() == [4, 2, 0, -1, -3]
    assert torch.linspace(torch.tensor(1.0), torch.tensor(2.0), torch.tensor(3))[1] == 1.5
    with pytest.raises(ValueError, match="step must be nonzero"):
        torch.arange(0, 64, 0.5, dtype=torch.int64)


def test_refusals_have_pytorchs_types() -> None:
    x = torch.ones(2, 2)
    for error, words, call in (
        (ValueError, "Expected 3D or 4D tensor", lambda: F.adaptive_avg_pool2d(x, 2)),
        (RuntimeError, "`shifts` required", lambda: torch.roll(x, ())),
        (TypeError, "must be Tensor, not int", lambda: torch.eq(2, x)),
        (IndexError, "but got 2", lambda: x.scatter(2, x.long(), 1.0)),
    ):
        with pytest.raises(error, match=words):
            call()
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.add(x, x, out=torch.ones(1).expand(2, 2))
    with pytest.raises(RuntimeError, match="to have dtype"):
        torch.amax(x, 0, out=torch.empty(2, dtype=torch.float64))


def test_edges_that_pytorchs_samples_have() -> None:
    assert torch.cov(torch.ones(1, 2)).shape == () and torch.linalg.vander(
        torch.tensor(3.0), N=3
    ).shape == (1, 3)
    assert (
        torch.tensordot(torch.ones(1, 2), torch.ones(3, 4), dims=([0], [0])).tolist()
        == [[3.0] * 4] * 2
    )
    for order in (1, 2):
        assert torch.linalg.matrix_norm(torch.zeros(0, 3), order).tolist() == 0
    histogram = torch.histogram(torch.tensor(3.0), 1)
    assert histogram.bin_edges.tolist() == [2.5, 3.5]
    poles = torch.special.zeta(torch.tensor([2.0, 0.5, 1.0]), torch.tensor([-2.0, 3.0, -1.0]))
    assert poles[0] == np.inf and poles[1].isnan() and poles[2] == np.inf
    q, tau = torch.geqrf(torch.randn(2, 5))
    assert torch.ormqr(q, tau, torch.eye(2)).shape == (2, 2)
    for empty in (torch.linalg.inv_ex, torch.linalg.cholesky_ex, torch.linalg.lu_factor):
        assert empty(torch.zeros(0, 0))[0].shape == (0, 0)

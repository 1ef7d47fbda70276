"""Triangles, diagonals, parts put back, windows and strides against NumPy, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch

X = np.random.default_rng(0).standard_normal((2, 3, 5))
V = np.random.default_rng(1).standard_normal(6)


def set_back(place: Any, value: Any) -> np.ndarray:
    out = X.copy()
    out[place] = value
    return out


def scattered_diagonal() -> np.ndarray:
    out = X.copy()
    for i in range(3):
        out[:, i, i + 1] = X[:, 0, i]
    return out


CASES: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    "tril": (lambda x, v: x.tril(-1), lambda: np.tril(X, -1)),
    "triu": (lambda x, v: torch.triu(x, 2), lambda: np.triu(X, 2)),
    "diagonal": (lambda x, v: x.diagonal(1, 1, 2), lambda: np.diagonal(X, 1, 1, 2)),
    "diagonal below": (lambda x, v: x.diagonal(-2, 2, 0), lambda: np.diagonal(X, -2, 2, 0)),
    "diagonal beyond": (lambda x, v: x.diagonal(7), lambda: np.zeros((5, 0))),
    "diag": (lambda x, v: torch.diag(v, -1), lambda: np.diag(V, -1)),
    "diag of a matrix": (lambda x, v: torch.diag(x[0], 1), lambda: np.diag(X[0], 1)),
    "diag_embed": (lambda x, v: torch.diag_embed(v, 2), lambda: np.diag(V, 2)),
    "diagflat": (lambda x, v: torch.diagflat(x[0]), lambda: np.diagflat(X[0])),
    "diagonal_scatter": (lambda x, v: x.diagonal_scatter(x[:, 0, :3], 1, 1, 2),
                         scattered_diagonal),
    "select": (lambda x, v: x.select(1, -1), lambda: X[:, -1]),
    "select_scatter": (lambda x, v: x.select_scatter(x[:, 0] * 2, 1, -1),
                       lambda: set_back((slice(None), -1), X[:, 0] * 2)),
    "slice_scatter": (lambda x, v: x.slice_scatter(x[..., :2], -1, 1, None, 2),
                      lambda: set_back((..., slice(1, None, 2)), X[..., :2])),
    "slice_scatter of nothing": (lambda x, v: x.slice_scatter(x[:0], 0, 2), lambda: X),
    "unfold": (lambda x, v: x.unfold(2, 3, 2), lambda: np.lib.stride_tricks.sliding_window_view(
        X, 3, axis=2)[:, :, ::2]),
    "unfold of all": (lambda x, v: v.unfold(0, 6, 1), lambda: V[None]),
    "as_strided": (lambda x, v: v.as_strided((2, 2), (1, 3), 1),
                   lambda: [[V[1], V[4]], [V[2], V[5]]]),
    "as_strided of a view": (lambda x, v: (v * 1)[2:].as_strided((2,), (3,)), lambda: V[[2, 5]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    call, expected = CASES[name]
    x, v = torch.tensor(X), torch.tensor(V)
    for run in (call, torch.compile(call)):
        np.testing.assert_array_equal(run(x, v).numpy(), expected())
    assert torch.autograd.gradcheck(
        lambda x, v: call(x, v).pow(2), (x.requires_grad_(), v.requires_grad_())
    )


def test_views_share_memory() -> None:
    x = torch.zeros(3, 3)
    x.diagonal().fill_(1)
    x.diagonal(1)[0] = 5
    x.select(1, 0).add_(2)
    assert x.tolist() == [[3, 5, 0], [2, 1, 0], [2, 0, 1]]
    x.unfold(0, 2, 1)[0, 0, 1] = 7
    x.as_strided((3,), (4,)).mul_(-1)
    assert x.tolist() == [[-3, 5, 0], [7, -1, 0], [2, 0, -1]]


def write_diagonal(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.diagonal(0, 1, 2).mul_(v[:3])
    y[0].transpose(0, 1).diagonal(-1).copy_(v[3:])
    return y * y


def test_writing_through_a_diagonal_is_recorded() -> None:
    x, v = torch.tensor(X, requires_grad=True), torch.tensor(V, requires_grad=True)
    assert torch.autograd.gradcheck(write_diagonal, (x, v))
    compiled = torch.compile(write_diagonal)(x, v)
    np.testing.assert_allclose(compiled.detach().numpy(), write_diagonal(x, v).detach().numpy())


def test_triangle_indices() -> None:
    np.testing.assert_array_equal(torch.tril_indices(3, 4, 1).numpy(), np.tril_indices(3, 1, 4))
    np.testing.assert_array_equal(torch.triu_indices(4, 2).numpy(), np.triu_indices(4, 0, 2))
    assert torch.tril_indices(0, 3, dtype=torch.int32).shape == (2, 0)


def test_errors() -> None:
    x = torch.zeros(2, 3)
    for call, error, message in (
        (lambda: x.unfold(1, 4, 1), RuntimeError, "maximum size for tensor at dimension 1 is 3"),
        (lambda: x.as_strided((2, 3), (3, 2)), RuntimeError, "out of bounds for storage of size"),
        (lambda: x.diagonal(0, 1, -1), RuntimeError, "cannot be identical"),
        (lambda: x.select(2, 0), IndexError, "Dimension out of range"),
        (lambda: x.slice_scatter(x, 1, 1), RuntimeError, "slice size = \\[2, 2\\]"),
        (lambda: torch.triu_indices(1, -1), RuntimeError, "col must be non-negative"),
    ):
        with pytest.raises(error, match=message):
            call()

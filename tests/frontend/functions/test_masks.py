"""Masked functions against NumPy, eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import frontend as torch
from graphc.errors import TraceError

X = np.arange(6.0).reshape(2, 3)
MASK = np.array([[True, False, True], [False, True, True]])


def test_masked_fill() -> None:
    def run(x: torch.Tensor, mask: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.masked_fill(mask, -1) + x.masked_fill(mask[0], v)

    expected = np.where(MASK, -1, X) + np.where(MASK[0], 9, X)
    tensors = torch.tensor(X), torch.tensor(MASK), torch.tensor(9)
    for call in (run, torch.compile(run)):
        np.testing.assert_array_equal(call(*tensors).numpy(), expected)
    assert torch.tensor([1, 2]).masked_fill(torch.tensor([True, False]), 1.7).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.tensor([1]).masked_fill(torch.tensor([True]), float("inf"))


def test_masked_scatter_takes_values_in_order() -> None:
    expected = X.copy()
    expected[MASK] = [10, 11, 12, 13]
    source = torch.arange(10.0, 16.0, dtype=torch.float64)
    compiled = torch.compile(lambda x, m, s: x.masked_scatter(m, s))
    for call in (lambda x, m, s: x.masked_scatter(m, s), compiled):
        np.testing.assert_array_equal(
            call(torch.tensor(X), torch.tensor(MASK), source).numpy(), expected
        )
        with pytest.raises(RuntimeError, match="source < number of ones in mask"):
            call(torch.tensor(X), torch.tensor(MASK), source[:3])
    x, s = torch.tensor(X, requires_grad=True), source.clone().requires_grad_()
    held = torch.tensor(MASK)
    assert torch.autograd.gradcheck(lambda x, s: x.masked_scatter(held, s).pow(2), (x, s))


def test_what_depends_on_data_runs_eagerly_only() -> None:
    x, mask = torch.tensor(X, requires_grad=True), torch.tensor(MASK)
    picked = x.masked_select(mask)
    assert picked.tolist() == X[MASK].tolist()
    (picked * picked).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.where(MASK, 2 * X, 0))
    assert torch.nonzero(mask).tolist() == np.argwhere(MASK).tolist()
    assert [place.tolist() for place in mask.nonzero(as_tuple=True)] == [
        place.tolist() for place in MASK.nonzero()
    ]
    assert torch.argwhere(torch.tensor(5)).shape == (1, 0)
    for call in (torch.nonzero, torch.argwhere, lambda x: x.masked_select(x > 1)):
        with pytest.raises(TraceError, match="needs the value of a tensor"):
            torch.compile(call, fullgraph=True)(torch.tensor(X))

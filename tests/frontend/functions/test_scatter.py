"""gather, scatter and their family against loops, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch

X = np.random.default_rng(0).standard_normal((3, 4))
SRC = np.random.default_rng(1).standard_normal((3, 5))
INDEX = np.array([[0, 3, 0, 1, 0], [2, 2, 2, 2, 1], [3, 1, 0, 2, 2]])


def agree(call: Callable[..., Any], expected: Any, *arrays: Any) -> None:
    """Eager and compiled give `expected`."""
    tensors = [torch.tensor(array) for array in arrays]
    for run in (call, torch.compile(call)):
        np.testing.assert_allclose(run(*tensors).numpy(), expected, rtol=1e-12, atol=1e-12)


def looped(combine: Callable[[float, float], float], start: np.ndarray) -> np.ndarray:
    out = start.copy()
    for row in range(3):
        for column in range(5):
            at = row, INDEX[row, column]
            out[at] = combine(out[at], SRC[row, column])
    return out


COMBINES: dict[str, tuple[Callable[[float, float], float], float]] = {
    "sum": (lambda a, b: a + b, 0.0), "prod": (lambda a, b: a * b, 1.0),
    "amax": (max, -np.inf), "amin": (min, np.inf),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("reduce", COMBINES)
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(reduce: str, include_self: bool) -> None:
    combine, identity = COMBINES[reduce]
    start = X.copy()
    if not include_self:
        for row in range(3):
            start[row, INDEX[row]] = identity

    def call(x: Any, i: Any, s: Any) -> Any:
        return x.scatter_reduce(1, i, s, reduce, include_self=include_self)

    agree(call, looped(combine, start), X, INDEX, SRC)


def test_scatter_leaves_the_last_in_row_major_order() -> None:
    expected = looped(lambda old, new: new, X)
    agree(lambda x, i, s: x.scatter(1, i, s), expected, X, INDEX, SRC)
    awkward = SRC.copy()
    awkward[0, 0], awkward[0, 4] = np.inf, -0.0
    actual = torch.tensor(X).scatter(1, torch.tensor(INDEX), torch.tensor(awkward))
    assert actual[0, 0] == 0 and np.signbit(actual[0, 0].numpy())


def test_gradients_go_to_what_stayed() -> None:
    x, s, i = torch.tensor(X), torch.tensor(SRC), torch.tensor(INDEX)
    x.requires_grad_()
    s.requires_grad_()
    for call in (
        lambda x, s: x.scatter(1, i, s).pow(2),
        lambda x, s: x.scatter_add(1, i, s).pow(2),
        lambda x, s: x.scatter_reduce(1, i, s, "prod").pow(2),
        lambda x, s: x.scatter_reduce(1, i, s, "mean", include_self=False).pow(2),
        lambda x, s: x.scatter_reduce(1, i, s, "amax").pow(2),
        lambda x, s: x.index_copy(0, torch.tensor([1, 1]), s[:2, :4]).pow(2),
        lambda x, s: x.index_add(0, torch.tensor([1, 1]), s[:2, :4], alpha=-3).pow(2),
        lambda x, s: x.index_fill(1, torch.tensor([0, 0]), s[0, 0]).pow(2),
        lambda x, s: x.put(torch.tensor([0, 5, 0]), s[0, :3]).pow(2),
        lambda x, s: x.take(i) * s,
        lambda x, s: x.gather(1, i) * s,
    ):
        assert torch.autograd.gradcheck(call, (x, s))


def test_whole_slices() -> None:
    rows = np.array([2, 0, 2])
    added, copied = X.copy(), X.copy()
    np.add.at(added, rows, SRC[:, :4])
    copied[rows] = SRC[:, :4]
    cut = np.ascontiguousarray(SRC[:, :4])
    agree(lambda x, i, s: x.index_add(0, i, s), added, X, rows, cut)
    agree(lambda x, i, s: x.index_copy(0, i, s), copied, X, rows, cut)
    agree(lambda x, i, s: x.index_select(0, i), X[rows], X, rows, cut)
    agree(lambda x, i, s: x.take(i - 3), X.reshape(-1)[rows - 3], X, rows, cut)
    filled = X.copy()
    filled[:, [0, 3]] = 7
    agree(lambda x: x.index_fill(1, torch.tensor([0, -1]), 7), filled, X)


def test_integers_and_bools() -> None:
    x = torch.tensor([[1, 2], [3, 4]])
    i = torch.tensor([[0, 0], [1, 1]])
    assert x.scatter(1, i, 9).tolist() == [[9, 2], [3, 9]]
    assert x.scatter_reduce(1, i, x, "mean").tolist() == [[1, 2], [3, 3]]
    assert (x > 2).scatter(1, i, True).tolist() == [[True, False], [True, True]]
    assert (x > 2).gather(1, i).tolist() == [[False, False], [True, True]]
    half = x.half().scatter(1, i, torch.tensor([[0.5, 1.5], [2.5, 3.5]]).half())
    assert half.dtype is torch.float16 and half.tolist() == [[1.5, 2], [3, 3.5]]


def test_edges() -> None:
    x = torch.tensor(3.0)
    assert x.scatter(0, torch.tensor(0), 5.0).tolist() == 5
    assert x.index_select(0, torch.tensor([0])).shape == ()
    assert x.gather(0, torch.tensor([0, 0])).tolist() == [3, 3]
    nothing = torch.zeros(0, dtype=torch.int64)
    assert torch.zeros(3).index_add(0, nothing, torch.zeros(0)).tolist() == [0, 0, 0]
    assert torch.zeros(2, 3).gather(1, nothing).shape == (0,)
    y = torch.zeros(3)
    assert y.scatter_(0, torch.tensor([1]), 2.0) is y and y.tolist() == [0, 2, 0]


def test_errors_leave_the_tensor_as_it_was() -> None:
    x = torch.zeros(2, 3)
    for call in (
        lambda: x.scatter_(1, torch.tensor([[0, 5]]), 1.0),
        lambda: x.index_add_(0, torch.tensor([0, 7]), torch.ones(2, 3)),
        lambda: x.put_(torch.tensor([0, 6]), torch.ones(2)),
        lambda: x.index_fill_(0, torch.tensor([0, 3]), 1),
        lambda: x.index_put_((torch.tensor([0, 2]),), torch.tensor(1.0)),
    ):
        with pytest.raises(IndexError, match=r"index \d"):
            call()
    assert x.tolist() == [[0, 0, 0]] * 2 and x._version == 0

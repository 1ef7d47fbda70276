"""`out=`, NumPy's names, and the top-level in-place functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.nn import functional as F


def test_out_takes_the_result() -> None:
    x = torch.tensor([1.0, 4.0])
    out = torch.zeros(2)
    assert torch.sqrt(x, out=out) is out
    assert out.tolist() == [1, 2]
    values, places = torch.zeros(()), torch.zeros((), dtype=torch.int64)
    result = torch.max(x, 0, out=(values, places))
    assert (result.values is values, values.item(), places.item()) == (True, 4, 1)
    wide = torch.add(x, 1, out=torch.zeros(2, dtype=torch.float64))
    assert (wide.dtype, wide.tolist()) == (torch.float64, [2, 5])
    for size in (0, 3):
        other = torch.zeros(size)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert torch.mul(x, 2, out=other) is other
        assert other.tolist() == [2, 8] and len(caught) == (size > 0)
    assert torch.argsort(x, out=torch.empty(0, dtype=torch.int64)).tolist() == [0, 1]


def test_out_in_a_trace() -> None:
    def call(x):
        out = torch.zeros(2)
        torch.exp(x, out=out)
        return out * 2

    x = torch.tensor([0.0, 1.0])
    np.testing.assert_allclose(torch.compile(call)(x).numpy(), 2 * np.exp([0, 1]), 1e-6)


def test_what_out_refuses() -> None:
    x = torch.tensor([1.0, 4.0])
    with pytest.raises(RuntimeError, match=r"Float can't be cast .* Long"):
        torch.sqrt(x, out=torch.zeros(2, dtype=torch.int64))
    with pytest.raises(RuntimeError, match=r"output with shape \[3\]"):
        torch.sqrt(x, out=torch.zeros(4)[:3])
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.sqrt(x.clone().requires_grad_(), out=torch.zeros(2))
    with pytest.raises(TypeError, match="'out' must be Tensor"):
        torch.sqrt(x, out=3)
    with pytest.raises(TypeError, match="tuple of 2 Tensors"):
        torch.max(x, 0, out=x)


def test_numpys_names() -> None:
    x = torch.ones(2, 3)
    assert x.sum(axis=0, keepdims=True).shape == (1, 3)
    assert torch.cat((x, x), axis=1).shape == (2, 6)
    assert x.unsqueeze(axis=0).shape == (1, 2, 3)
    with pytest.raises(TypeError, match="both 'dim' and 'axis'"):
        x.sum(dim=0, axis=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'direction'"):
        x.sum(direction=0)


def test_top_level_functions_in_place() -> None:
    x = torch.tensor([-1.5, 2.5])
    assert torch.abs_(x) is x
    assert torch.clamp_(x, max=2).tolist() == [1.5, 2]
    assert torch.fill_(x, 3).tolist() == [3, 3]
    assert torch.fill(x, 4).tolist() == [4, 4] and x.tolist() == [3, 3]
    y = torch.detach(x.requires_grad_())
    assert not y.requires_grad and y.data_ptr() == x.data_ptr()


INTS: dict[str, Callable[..., Any]] = {
    "cat": lambda x, two, zero: torch.cat([x, x], zero),
    "chunk": lambda x, two, zero: x.chunk(two, zero)[0],
    "cross_entropy": lambda x, two, zero: F.cross_entropy(
        x, torch.tensor([0, 2, 1, 2]), ignore_index=two
    ),
    "cumsum": lambda x, two, zero: x.cumsum(zero),
    "embedding": lambda x, two, zero: F.embedding(torch.tensor([1, 2]), x, padding_idx=two),
    "eye": lambda x, two, zero: torch.eye(two),
    "gather": lambda x, two, zero: x.gather(zero, torch.zeros(1, 4, dtype=torch.int64)),
    "movedim": lambda x, two, zero: x[None].movedim(zero, two),
    "narrow": lambda x, two, zero: x.narrow(zero, zero, two),
    "one_hot": lambda x, two, zero: F.one_hot(torch.tensor([1, 0]), two),
    "roll": lambda x, two, zero: x.roll(two, zero),
    "softmax": lambda x, two, zero: F.softmax(x, zero),
    "sort": lambda x, two, zero: x.sort(zero)[0],
    "split": lambda x, two, zero: x.split(two)[1],
    "stack": lambda x, two, zero: torch.stack([x, x], zero),
    "sum": lambda x, two, zero: x.sum(zero),
    "topk": lambda x, two, zero: x.topk(two, zero)[0],
    "unbind": lambda x, two, zero: x.unbind(zero)[0],
    "unfold": lambda x, two, zero: x.unfold(zero, two, two),
}


@pytest.mark.parametrize("name", INTS)
def test_tensors_of_one_integer_are_taken_for_ints(name: str) -> None:
    x = torch.arange(16.0).reshape(4, 4)
    expected = INTS[name](x, 2, 0)
    assert INTS[name](x, torch.tensor(2), torch.tensor(0)).tolist() == expected.tolist()
    if name in ("sum", "topk", "one_hot", "split"):
        with pytest.raises(TypeError, match="only integer tensors of a single element"):
            INTS[name](x, torch.tensor(2.0), torch.tensor(0.0))

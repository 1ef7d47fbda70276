"""In a trace a tensor that depends on no input has a value, and rows can be iterated over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from graphc.errors import TraceError

X = torch.arange(12.0).reshape(3, 4)


def upper() -> Any:
    return torch.ones(3, 4).triu(1) > 0


def changed(x: Any) -> Any:
    constant = torch.zeros(3)
    constant[1] = 2
    return x * constant[1].item() + constant.sum()


def unpacked(x: Any) -> Any:
    first, *rest = x
    return torch.stack([first * i + row for i, row in enumerate(rest)]) + sum(
        a * b for a, b in zip(x, x)
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[upper()],
        lambda x: x.flatten()[upper().flatten().nonzero()[:, 0]],
        lambda x: x[:, torch.unique(torch.tensor([1, 1, 2]))],
        lambda x: torch.repeat_interleave(x, torch.tensor([1, 2, 3]), dim=0),
        lambda x: x * int(torch.tensor(3) + 1),
        lambda x: sum(x[i] for i in torch.arange(3)),
        lambda x: x[torch.tensor(1) : torch.tensor(1) + 2],
        lambda x: x if torch.linspace(0, 1, 5)[2] > 0.4 else -x,
        changed, unpacked,
    ],
)  # fmt: skip
def test_compiled_as_eager(function: Any) -> None:
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(torch.compile(function)(x).sum(), x)
    (expected,) = torch.autograd.grad(function(x).sum(), x)
    np.testing.assert_allclose(torch.compile(function)(X).numpy(), function(X).numpy(), rtol=1e-6)
    np.testing.assert_allclose(gradient.numpy(), expected.numpy(), rtol=1e-6)


def test_what_depends_on_an_input_has_none() -> None:
    for function in (lambda x: x[x > 5], lambda x: int(torch.ones(3) @ x[:, 0])):
        with pytest.raises(TraceError, match="needs the value"):
            torch.compile(function, fullgraph=True)(X)


def test_a_known_value_cannot_be_written_past_the_trace() -> None:
    with pytest.raises(ValueError, match="read-only"):
        torch.compile(lambda x: x + torch.zeros(3, 1).numpy().__setitem__(0, 1))(X)


class Kept(torch.nn.Module):
    """Rows that a mask in a buffer keeps, as often as counts in another one say."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor([True, False, True]))
        self.register_buffer("counts", torch.tensor([2, 1]))
        self.register_buffer("large", torch.ones(70_000, dtype=torch.bool))

    def forward(self, x: Any) -> Any:
        return torch.repeat_interleave(x[self.mask & ~torch.zeros(3, dtype=torch.bool)],
                                       self.counts, dim=0)  # fmt: skip


def test_a_mask_in_a_buffer_is_known_and_guarded() -> None:
    module = Kept()
    compiled = torch.compile(module)
    x = X.clone().requires_grad_()
    np.testing.assert_array_equal(compiled(x).detach().numpy(), X.numpy()[[0, 0, 2]])
    compiled(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy()[:, 0], [2, 0, 1])
    assert compiled(x).shape == (3, 4) and len(compiled.specializations) == 1
    module.mask[1] = True
    module.counts.copy_(torch.tensor([1, 1]))
    with pytest.raises(Exception, match="same size"):
        compiled(x)
    module.mask[0] = False
    np.testing.assert_array_equal(compiled(x).detach().numpy(), X.numpy()[[1, 2]])
    assert "values of a captured tensor" in compiled.explain()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[x[:, 0] > 5],
        lambda x: x[torch.ones(3).bool() & (X[:, 0] > 5)],  # floats from outside change
        lambda x: torch.repeat_interleave(x, x[:, 0].long(), dim=0),
        lambda x: torch.nonzero(KEPT.large),
    ],
)  # fmt: skip
def test_sizes_that_inputs_decide_are_refused(function: Any) -> None:
    with pytest.raises(TraceError, match="needs the value"):
        torch.compile(function, fullgraph=True)(X)


KEPT = Kept()


def test_bounds_that_are_given_are_enough() -> None:
    x = torch.tensor([0.0, 3.0, 0.0, 1.0])
    places = torch.compile(lambda x: torch.nonzero_static(x > 0, size=3))(x)
    assert places.tolist() == [[1], [3], [-1]]
    counts = torch.tensor([1, 0, 2, 0])
    repeated = torch.compile(lambda x, n: torch.repeat_interleave(x, n, output_size=3))(x, counts)
    assert repeated.tolist() == [0.0, 0.0, 0.0]


def test_a_long_loop_over_rows_says_that_it_is_unrolled() -> None:
    def total(x: Any) -> Any:
        return sum(row for row in x)

    with pytest.warns(UserWarning, match="loop over 300 rows .* frontend.scan"):
        assert torch.compile(total)(torch.ones(300)).item() == 300
    assert torch.compile(total)(torch.ones(200)).item() == 200

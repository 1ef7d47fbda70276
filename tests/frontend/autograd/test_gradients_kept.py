"""What is left in `.grad`, and what `autograd.grad` hands out: kept, added up, and free to be
changed; and what in-place operations and `.data` do to the tape. Expected values are PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import frontend as torch
from frontend import Tensor


def leaf(*numbers: float) -> Tensor:
    return torch.tensor(list(numbers), requires_grad=True)


def test_retained_gradients_add_up() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert y.grad.tolist() == [2.0, 2.0]


def test_what_was_read_of_a_retained_gradient_stays() -> None:
    """A leaf's gradient is added to in place; one that is retained is a new tensor each time."""
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    before = y.grad
    y.sum().backward()
    assert before.tolist() == [1.0, 1.0]
    assert y.grad.tolist() == [2.0, 2.0]
    assert not y.grad.requires_grad


def test_a_retained_gradient_is_that_of_the_tensor_as_it_is_now() -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    assert y.retains_grad
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0, 1.0]
    assert x.grad.tolist() == [6.0, 6.0, 6.0]


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_gradients_may_be_changed_in_place(reduce: str) -> None:
    x = leaf(1.0, 2.0, 4.0, 5.0)
    (gradient,) = torch.autograd.grad(getattr(x, reduce)(), [x])
    gradient.mul_(2)
    gradient[0] = 7.0
    rest = 2.0 if reduce == "sum" else 0.5
    assert gradient.tolist() == [7.0, rest, rest, rest]
    scalar = torch.tensor(3.0, requires_grad=True)
    (gradient,) = torch.autograd.grad(scalar * 2, [scalar])
    assert gradient.add_(1).item() == 3.0


def test_zeros_for_an_unused_input_may_be_changed_in_place() -> None:
    x, unused = leaf(1.0), leaf(1.0, 2.0)
    gradients = torch.autograd.grad(x.sum(), [x, unused], allow_unused=True, materialize_grads=True)
    assert gradients[1].add_(1).tolist() == [1.0, 1.0]


def test_what_is_changed_through_data_is_no_change_to_the_tape() -> None:
    x = leaf(1.0, -2.0, 3.0)
    y = x * x
    x.data.clamp_(-1, 1)
    assert x._version == 0
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, -2.0, 2.0])
    z = x * x
    x.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_a_leaf_keeps_its_flag_when_its_shape_changes_under_no_grad() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    with torch.no_grad():
        x.swapaxes_(0, 1)
        assert x.requires_grad and x.is_leaf and x.shape == (3, 2)
        x.unsqueeze_(0)
    assert x.requires_grad and x.is_leaf
    x.sum().backward()
    assert x.grad.shape == (1, 3, 2)


@pytest.mark.parametrize("compiled", [False, True])
def test_fill_with_a_tensor_of_no_axes_keeps_its_gradient(compiled: bool) -> None:
    x = torch.tensor(2.0, requires_grad=True)

    def loss(x: Tensor) -> Tensor:
        y = x.square()
        y.fill_(x)
        return y * y

    result = (torch.compile(loss) if compiled else loss)(x)
    result.backward()
    assert x.grad.item() == 4.0
    assert torch.fill(torch.tensor(0.0), x).requires_grad

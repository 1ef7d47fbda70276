"""What happens to history: where shapes change in place, where all is overwritten, where a
derivative is constant in pieces."""

from __future__ import annotations

import warnings

import pytest

import frontend as torch


def test_a_view_of_a_base_that_is_transposed_later() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    y = x / 3
    part = y[-1:, -1:]
    y.transpose_(0, -1)
    part.pow_(2)
    assert y.shape == (3, 2) and y[2, 1].item() == pytest.approx(1 / 9)
    y.sum().backward()
    assert x.grad.tolist()[0] == pytest.approx([1 / 3] * 3)
    assert x.grad[1, 2].item() == pytest.approx(2 / 9)


def test_views_know_the_shape_they_were_made_of_each_time() -> None:
    y = torch.arange(6.0).reshape(2, 3).requires_grad_() * 1
    row = y[0]
    y.t_()
    column = y[:, 0]
    y.unsqueeze_(0)
    assert row.tolist() == column.tolist() == [0.0, 1.0, 2.0]
    column.mul_(10)
    row.add_(1)
    assert y[0, :, 0].tolist() == [1.0, 11.0, 21.0]
    assert y.requires_grad and y.grad_fn is not None and y._base is None


def test_shapes_change_in_place_under_no_grad() -> None:
    y = torch.ones(2, 3, requires_grad=True) * 2
    with torch.no_grad():
        y.t_()
    assert y.requires_grad and not y.is_leaf
    leaf = torch.ones(2, 3, requires_grad=True)
    with torch.no_grad():
        leaf.t_()
        leaf.add_(1)  # an optimizer's step
    assert leaf.is_leaf and leaf.requires_grad
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        leaf[0].unsqueeze_(0)


def test_what_is_overwritten_has_a_gradient_of_zeros() -> None:
    for write in (
        lambda y, x: y.__setitem__(0, 7.0), lambda y, x: y.view(-1).__setitem__(0, 7.0),
        lambda y, x: y.fill_(x[0].detach()), lambda y, x: y.copy_(torch.zeros(1)),
        lambda y, x: y.zero_(),
    ):  # fmt: skip
        x = torch.ones(1, requires_grad=True)
        y = x * 2
        write(y, x)
        assert y.requires_grad
        y.sum().backward()
        assert x.grad.tolist() == [0.0]


def test_a_new_value_with_a_gradient_leaves_the_old_one_zeros() -> None:
    x, z = torch.ones(2, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    y = x * 2
    y.fill_(z)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0] and z.grad.item() == 2.0


def test_a_leaf_frozen_since_gets_no_gradient() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    x.requires_grad_(False)
    y.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("name", ["relu", "relu6", "hardtanh", "leaky_relu", "hardshrink"])
def test_piecewise_linear_functions_have_a_second_derivative_of_zeros(name: str) -> None:
    x = torch.tensor([0.5, -2.0], requires_grad=True)
    (slope,) = torch.autograd.grad(getattr(torch.nn.functional, name)(x).sum(), [x],
                                   create_graph=True)  # fmt: skip
    ((slope - 1) ** 2).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    compiled = torch.compile(lambda v: torch.nn.functional.relu(v).sum())
    (slope,) = torch.autograd.grad(compiled(x), [x], create_graph=True)
    assert torch.autograd.grad(slope.sum(), [x])[0].tolist() == [0.0, 0.0]


def test_gradients_of_a_norm_are_connected_with_what_it_read() -> None:
    x, w, b = torch.randn(3, 4), torch.ones(4), torch.zeros(4)
    for free in ([x, b], [w, b], [b]):
        for leaf in (x, w, b):
            leaf.requires_grad_(any(leaf is each for each in free))
        out = torch.nn.functional.layer_norm(x, (4,), w, b)
        (of_bias,) = torch.autograd.grad(out.sum(), [b], create_graph=True)
        assert of_bias.requires_grad == (len(free) > 1)
        if of_bias.requires_grad:
            (zeros,) = torch.autograd.grad(of_bias.sum(), [free[0]])
            assert zeros.shape == free[0].shape and not zeros.any()


def test_hooks_of_leaves_are_called_in_the_order_of_operands() -> None:
    called = []
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    b.register_hook(lambda g: called.append("b"))
    a.register_hook(lambda g: called.append("a"))
    product = a * b
    torch.autograd.backward([b.sum(), product.sum()])
    assert called == ["a", "b"]


def test_a_comparison_is_connected_with_nothing() -> None:
    x = torch.tensor([0.5, -2.0], requires_grad=True)
    (slope,) = torch.autograd.grad(x.clamp(-1, 1).sum(), [x], create_graph=True)
    assert not slope.requires_grad


def test_gradients_that_are_differentiated_further_are_nobody_elses() -> None:
    c = torch.ones(3, requires_grad=True)
    c.sum().backward(create_graph=True)
    (c + c).sum().backward()
    assert c.grad.tolist() == [3.0, 3.0, 3.0]
    (slope,) = torch.autograd.grad(c.sum(), [c], create_graph=True)
    slope[0] = 5
    assert slope.tolist() == [5.0, 1.0, 1.0]


def test_inputs_of_backward_retain_their_gradients() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.sum().backward(inputs=[y], retain_graph=True)
    y.square().sum().backward()
    assert y.grad.tolist() == [5.0, 5.0]
    with pytest.raises(RuntimeError, match="can't retain_grad"):
        (x * 1).sum().backward(inputs=[torch.ones(2)])


def test_what_retains_its_gradient_goes_on_to() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.view(2, 1).mul_(3)  # history anew, through a view
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0] and x.grad.tolist() == [6.0, 6.0]
    y = x * 2
    y.retain_grad()
    y.unsqueeze_(0)
    y.sum().backward()
    assert y.grad.tolist() == [[1.0, 1.0]]


def test_parts_of_what_is_expanded_can_be_written() -> None:
    b = torch.zeros(2)
    part = b.expand(3, 2).unbind(0)[-1]
    part.add_(1)
    b.expand(3, 2)[0] = 5.0
    assert b.tolist() == [5.0, 5.0]
    with pytest.raises(RuntimeError, match="single memory location"):
        b.expand(3, 2).add_(1)
    y = torch.zeros(2, requires_grad=True) * 1
    with pytest.raises(RuntimeError, match="clone"):
        y.expand(3, 2)[0].add_(1)
    assert y.tolist() == [0.0, 0.0]  # refused before anything is written


def test_other_members() -> None:
    x = torch.ones(3, requires_grad=True)
    assert torch.fill(x, 1.0).requires_grad and torch.normal(x, 1.0).requires_grad
    assert torch.tensor([2.0]).__rdiv__(4).tolist() == [2.0]
    assert x.t().grad_fn is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x.grad is None

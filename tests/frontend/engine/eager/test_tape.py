"""The tape: gradients, saved values and versions, hooks, higher orders."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

import frontend as torch
from frontend.engine.eager.gradients.backward import GroupHook
from frontend.engine.eager.tape import Saves, record

T = torch.tensor


def leaf(*numbers: float) -> torch.Tensor:
    return T([float(number) for number in numbers], requires_grad=True)


def test_backward_accumulates() -> None:
    x = leaf(1, 2)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]
    before = x.grad
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5, 7]
    assert x.grad is before  # in place, as in PyTorch


def test_leaves_do_not_share_one_gradient() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    weight = torch.ones(2)
    (x + y).backward(weight)
    x.grad.add_(1)
    assert y.grad.tolist() == [1, 1] and weight.tolist() == [1, 1]


def test_graph_is_visible() -> None:
    x = leaf(1, 2)
    y = (x * 2).sum()
    assert x.is_leaf and x.grad_fn is None and not y.is_leaf
    assert y.grad_fn.name() == "SumBackward0"
    ((inner, index),) = y.grad_fn.next_functions
    assert inner.name() == "MulBackward0" and index == 0
    assert inner.next_functions[0][0].variable is x
    assert inner.next_functions[0][0].name() == "AccumulateGrad"
    assert inner.next_functions[1] == (None, 0)


def test_modes() -> None:
    x = leaf(1, 2)
    with torch.no_grad():
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad

    @torch.no_grad()
    def decorated() -> torch.Tensor:
        return x * 2

    @torch.no_grad
    def bare() -> torch.Tensor:
        return x * 2

    assert not decorated().requires_grad and not bare().requires_grad
    with torch.inference_mode():
        assert not (x * 2).requires_grad
    torch.set_grad_enabled(False)
    assert not torch.is_grad_enabled()
    with torch.set_grad_enabled(True):
        assert (x * 2).requires_grad
    assert not torch.is_grad_enabled()
    torch.set_grad_enabled(True)


def test_second_backward_needs_retain_graph() -> None:
    x = leaf(1, 2)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4, 8]
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()
    z = (x + 1).sum()  # nothing saved, so nothing is missing
    z.backward()
    z.backward()


def test_backward_of_a_vector_needs_a_weight() -> None:
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(torch.ones(3))
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        torch.ones(1).backward()
    (x * 2).backward(T([1.0, 10.0]))
    assert x.grad.tolist() == [2, 20]


def test_saved_values_are_version_checked() -> None:
    x = leaf(1, 2)
    y = x * 2
    z = (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    y = x * 2
    z = (y + y).sum()  # add reads no operand
    y.add_(1)
    z.backward()
    assert x.grad.tolist() == [4, 4]
    out = x.exp()
    total = out.sum()
    out.zero_()
    with pytest.raises(RuntimeError, match="used by ExpBackward0"):  # exp saved its result
        total.backward()


def test_in_place_rules() -> None:
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        x[0].add_(1)
    with torch.no_grad():
        x.sub_(1)
    assert x.tolist() == [0, 1] and x.is_leaf
    y = x * 1
    y[0].mul_(3)
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf"):
        y.requires_grad = False
    with pytest.raises(RuntimeError, match="floating point"):
        T([1]).requires_grad_()


def test_index_assignment_is_differentiated() -> None:
    a, b = T([[1.0, 2.0], [3.0, 4.0]], requires_grad=True), leaf(5, 6)
    t = a * 1
    t[0] = b * 2
    t[:, 1] = 7
    t[t > 9] = 0
    (t * T([1.0, 10.0])).sum().backward()
    assert t.tolist() == [[0, 7], [3, 7]]
    assert a.grad.tolist() == [[0, 0], [1, 0]]
    assert b.grad.tolist() == [0, 0]


def test_grad_of_chosen_inputs() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    middle = x * y
    out = (middle * middle).sum()
    result = torch.autograd.grad(out, [middle, y], retain_graph=True)
    assert result[0].tolist() == [6, 16] and result[1].tolist() == [6, 32]
    assert x.grad is None and y.grad is None
    unused = leaf(1)
    with pytest.raises(RuntimeError, match="at index 1 appears to not have been used"):
        torch.autograd.grad(out, [x, unused], retain_graph=True)
    _, nothing = torch.autograd.grad(out, [x, unused], retain_graph=True, allow_unused=True)
    assert nothing is None
    _, zeros = torch.autograd.grad(out, [x, unused], materialize_grads=True)
    assert zeros.tolist() == [0]
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad((x * 2).sum(), [torch.ones(1)])


def test_higher_orders() -> None:
    x = leaf(2)
    y = (x**4).sum()
    for expected in (32, 48, 48, 24):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        assert y.item() == expected
    z = leaf(0.5)
    (first,) = torch.autograd.grad(z.tanh().sum(), z, create_graph=True)
    first.sum().backward()
    t = torch.tanh(z.detach())
    assert torch.allclose(z.grad, -2 * t * (1 - t * t))


def test_hooks_see_and_replace_gradients() -> None:
    x = leaf(1, 2)
    seen = []
    y = x * 3
    handle = y.register_hook(lambda g: seen.append(g.tolist()))
    y.register_hook(lambda g: g * 2)
    x.register_hook(lambda g: g + 1)
    y.sum().backward()
    assert seen == [[1, 1]] and x.grad.tolist() == [7, 7]
    handle.remove()
    x.grad = None
    y = x * 3
    y.retain_grad()
    y.sum().backward()
    assert seen == [[1, 1]] and x.grad.tolist() == [4, 4] and y.grad.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        torch.ones(1).register_hook(print)


def test_detach_and_data_cut_the_tape() -> None:
    x = leaf(3)
    (x * x.detach()).sum().backward()
    assert x.grad.tolist() == [3]
    x.data.mul_(2)
    assert x.tolist() == [6] and x.requires_grad
    x.data = T([1.0])
    assert x.tolist() == [1]


def test_extremes_share_or_pick() -> None:
    x = leaf(1, 3, 3)
    x.max().backward()
    assert x.grad.tolist() == [0, 0.5, 0.5]
    x.grad = None
    x.max(0).values.backward()
    assert x.grad.tolist() == [0, 1, 0]


def test_saved_results_make_no_reference_cycle() -> None:
    gc.disable()
    try:
        x = leaf(1, 2)
        y = x.exp()
        gone = weakref.ref(y)
        y.sum().backward()
        del y
        assert gone() is None
    finally:
        gc.enable()


def test_objects_with_name_and_vjp_can_be_recorded() -> None:
    x = leaf(1, 2)
    result = T([10.0, 20.0])
    op = SimpleNamespace(name="ten_times", vjp=lambda g, out, a: (g * 10,))
    kind = (x.tensor_type,)
    record(op, {}, (x,), (result,), Saves(kind, kind, ((False,), (False,))))
    assert result.grad_fn.name() == "TenTimesBackward0"
    result.sum().backward()
    assert x.grad.tolist() == [10, 10]


def test_grad_must_fit() -> None:
    x = leaf(1, 2)
    with pytest.raises(RuntimeError, match="same shape and dtype"):
        x.grad = torch.ones(3)
    with pytest.raises(TypeError, match="Tensor or None"):
        x.grad = 1.0


def test_backward_to_chosen_inputs() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    x.register_hook(lambda g: g + 1)
    (x * y).sum().backward(inputs=[x])
    assert x.grad.tolist() == [4, 5] and y.grad is None  # the hook ran once
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * y).sum().backward(inputs=[])


def test_hooks_of_leaves_run_as_soon_as_their_gradient_is_complete() -> None:
    x, w, called = leaf(1, 2), leaf(3, 4), []
    hidden = x.exp()
    out = hidden * w + w * 2  # w is used twice: its hook waits for the first product
    out.register_hook(lambda g: called.append("out"))
    w.register_hook(lambda g: called.append("w") or g * 10)
    hidden.register_hook(lambda g: called.append("hidden"))
    x.register_hook(lambda g: called.append("x"))
    out.sum().backward()
    assert called == ["out", "w", "hidden", "x"]
    assert w.grad.tolist() == pytest.approx([47.182819, 93.890561])


def test_a_named_node_between_a_leaf_with_a_place_and_the_loss() -> None:
    """`grad_fn` gives a node the class of its name; what places gradients is asked of leaves."""
    asked: list[Any] = []
    hook = GroupHook(lambda leaves: None, lambda leaves: [asked.append(x) for x in leaves])
    weight = torch.ones(1 << 18, requires_grad=True)
    weight.register_post_accumulate_grad_hook(hook)
    between = weight * 2 + 1
    assert "AddBackward0" in repr(between.grad_fn)
    (between * 3).sum().backward()
    assert asked == [weight] and bool((weight.grad == 6.0).all())

"""gradcheck, jacobian and its relatives, anomaly detection."""

from __future__ import annotations

from typing import Any

import pytest

import frontend as torch
from frontend.autograd import functional as AF

T = torch.tensor


def leaf(*numbers: float) -> torch.Tensor:
    return T([float(n) for n in numbers], dtype=torch.float64, requires_grad=True)


def test_gradcheck_sees_a_wrong_gradient() -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    assert torch.autograd.gradcheck(lambda x, y: (x * y).sin(), (leaf(1, 2), leaf(3, 4)))
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input"):
        torch.autograd.gradcheck(Wrong.apply, leaf(1, 2))
    assert not torch.autograd.gradcheck(Wrong.apply, leaf(1, 2), raise_exception=False)
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        torch.autograd.gradcheck(lambda x: x, T([1.0]))
    with pytest.raises(ValueError, match="float64"):
        torch.autograd.gradcheck(lambda x: x * 2, T([1.0], requires_grad=True))


def test_what_grad_takes_besides() -> None:
    x, w = leaf(1, 2, 3), T([[1.0] * 3] * 2, dtype=torch.float64, requires_grad=True)
    y = w @ x * x.sum()
    rows = T([[1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    by_row = torch.autograd.grad(
        y, (x, w), rows, create_graph=True, only_inputs=True, is_grads_batched=True
    )
    assert by_row[0].tolist() == [[12.0] * 3] * 2 and by_row[1].shape == (2, 2, 3)
    assert torch.autograd.grad(by_row[0].sum(), x)[0].tolist() == [12.0] * 3
    with pytest.raises(RuntimeError, match="first axis"):
        torch.autograd.grad(y, x, T(1.0), is_grads_batched=True)
    with pytest.warns(FutureWarning, match="only_inputs"):
        torch.autograd.grad(w.sum(), w, None, None, False, False)
    with pytest.warns(FutureWarning, match="grad_variables"):
        torch.autograd.backward((x * 2).sum(), grad_variables=T(2.0, dtype=torch.float64))
    assert x.grad.tolist() == [4.0] * 3


def test_jacobian() -> None:
    x = leaf(1, 2)
    assert AF.jacobian(lambda x: x * x, x).tolist() == [[2, 0], [0, 4]]
    assert AF.jacobian(lambda x: (x * x).sum(), x).tolist() == [2, 4]
    result = AF.jacobian(lambda x, y: (x * y, x + 1), (x, leaf(3, 4)))
    assert [[g.tolist() for g in row] for row in result] == [
        [[[3, 0], [0, 4]], [[1, 0], [0, 2]]],
        [[[1, 0], [0, 1]], [[0, 0], [0, 0]]],
    ]
    with pytest.raises(RuntimeError, match="independent of input 1"):
        AF.jacobian(lambda x, y: x + 1, (x, leaf(3, 4)), strict=True)
    result = AF.jacobian(lambda x: x * x, x, create_graph=True)
    result.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_hessian() -> None:
    x = leaf(1, 2)
    assert AF.hessian(lambda x: (x**3).sum(), x).tolist() == [[6, 0], [0, 12]]
    result = AF.hessian(lambda x, y: (x * y).sum(), (x, leaf(3, 4)))
    assert result[0][1].tolist() == [[1, 0], [0, 1]] and result[0][0].tolist() == [[0, 0], [0, 0]]
    with pytest.raises(RuntimeError, match="single element"):
        AF.hessian(lambda x: x * 2, x)


def test_products_with_vectors() -> None:
    x, v = leaf(1, 2), T([1.0, 10.0], dtype=torch.float64)
    value, product = AF.vjp(lambda x: x * x, x, v)
    assert value.tolist() == [1, 4] and product.tolist() == [2, 40]
    _, product = AF.jvp(lambda x: x * x[0], x, v)
    assert product.tolist() == [2, 12]
    _, product = AF.hvp(lambda x: (x**3).sum(), x, v)
    assert product.tolist() == [6, 120]
    with pytest.raises(RuntimeError, match="invalid size"):
        AF.vjp(lambda x: x * x, x, T([1.0]))


def test_anomaly_detection_names_the_forward_line() -> None:
    x = leaf(0, 4)
    with torch.autograd.detect_anomaly():
        y = (x - 1).sqrt()  # NaN at 0 - 1
        with pytest.raises(RuntimeError, match=r"'SqrtBackward0' returned nan.*test_derivatives"):
            y.sum().backward()
    (x - 1).sqrt().sum().backward()
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        (x - 1).sqrt().sum().backward()
    assert not torch.is_anomaly_enabled()


def test_an_error_in_a_hook_or_rule_tells_the_forward_line() -> None:
    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise ValueError("no")

    with torch.autograd.detect_anomaly():
        y = Raises.apply(leaf(1))
        with pytest.raises(ValueError, match="no") as caught:
            y.backward()
    assert "test_derivatives" in caught.value.__notes__[0]


def test_node_hooks_see_and_replace_gradients() -> None:
    x = leaf(1, 2)
    y = x * 3
    seen: list[Any] = []
    y.grad_fn.register_prehook(lambda grads: seen.append(grads[0].tolist()))
    handle = y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 10, *inputs[1:]))
    y.sum().backward(retain_graph=True)
    assert seen == [[1, 1]] and x.grad.tolist() == [30, 30]
    handle.remove()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_hooks_of_leaves_after_accumulation() -> None:
    x = leaf(1, 2)
    seen: list[Any] = []
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    handle.remove()
    (x * 2).sum().backward()
    assert seen == [[2, 2], [4, 4]]
    with pytest.raises(RuntimeError, match="non-leaf"):
        (x * 2).register_post_accumulate_grad_hook(print)


def test_a_hook_that_changes_the_type_is_an_error() -> None:
    x = leaf(1, 2)
    y = x * 2
    y.register_hook(lambda g: g.sum())
    with pytest.raises(RuntimeError, match="has changed the type of a gradient"):
        y.sum().backward()


def test_reading_the_gradient_of_a_non_leaf_warns() -> None:
    y = leaf(1, 2) * 2
    with pytest.warns(UserWarning, match="is not a leaf Tensor is being accessed"):
        assert y.grad is None
    y.retain_grad()
    assert y.grad is None
    y.sum().backward()
    assert y.grad.tolist() == [1, 1]

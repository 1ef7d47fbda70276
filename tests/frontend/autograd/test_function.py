"""Custom functions: `autograd.Function`, eager and traced."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import frontend as torch
from frontend.autograd import Function
from frontend.autograd.function import once_differentiable

T = torch.tensor


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


class Exponential(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        out = x.exp()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0]


class Affine(Function):
    @staticmethod
    def forward(x: Any, factor: float, y: Any) -> Any:
        return x * factor + y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        assert ctx.needs_input_grad == (True, False, False)
        return g * ctx.factor, None, None


def leaf(*numbers: float) -> torch.Tensor:
    return T([float(n) for n in numbers], dtype=torch.float64, requires_grad=True)


def test_its_own_gradient_is_used_once_and_again() -> None:
    x = leaf(1, 2)
    y = Cube.apply(x)
    assert y.grad_fn.name() == "CubeBackward" and y.grad_fn.next_functions[0][0].variable is x
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.tolist() == [3, 12] and second.tolist() == [6, 12]
    assert torch.autograd.gradcheck(Cube.apply, (x,))
    assert torch.autograd.gradgradcheck(Exponential.apply, (x,))


def test_compiled_it_is_traced_through() -> None:
    eager, compiled = leaf(1, 2), leaf(1, 2)
    run = lambda x: Exponential.apply(Cube.apply(x) * 0.1)  # noqa: E731
    run(eager).sum().backward()
    torch.compile(run)(compiled).sum().backward()
    assert torch.allclose(eager.grad, compiled.grad)

    @torch.compile
    def step(x: Any) -> Any:
        Cube.apply(x).sum().backward()
        return x.grad

    assert step(leaf(1, 2)).tolist() == [3, 12]


def test_other_arguments_and_setup_context() -> None:
    x = leaf(1, 2)
    y = Affine.apply(x, 3.0, T([1.0, 1.0], dtype=torch.float64))
    y.sum().backward()
    assert y.tolist() == [4, 7] and x.grad.tolist() == [3, 3]


def test_nothing_is_recorded_where_nothing_is_wanted() -> None:
    assert Cube.apply(T([2.0])).grad_fn is None
    with torch.no_grad():
        assert not Cube.apply(leaf(1)).requires_grad


def test_saved_tensors_are_version_checked_and_freed() -> None:
    x = leaf(1, 2) * 1
    y = Cube.apply(x)
    x.add_(1)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation.*CubeBackward"):
        y.sum().backward()
    x = leaf(1, 2)
    y = Exponential.apply(x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()


def test_a_saved_result_makes_no_cycle() -> None:
    gc.disable()
    try:
        y = Exponential.apply(leaf(1, 2))
        gone = weakref.ref(y)
        del y
        assert gone() is None
    finally:
        gc.enable()


class Two(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        index = x.argmax()
        ctx.mark_non_differentiable(index)
        ctx.set_materialize_grads(False)
        return x * 2, x * 3, index

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any, third: Any) -> Any:
        assert third is None
        assert second is None
        return first * 2


def test_several_results_and_undefined_gradients() -> None:
    x = leaf(1, 2)
    first, second, index = Two.apply(x)
    assert second.requires_grad and not index.requires_grad
    first.sum().backward()
    assert x.grad.tolist() == [2, 2]


class Doubled(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def test_an_operand_changed_in_place() -> None:
    x = leaf(1, 2)
    y = x * 1
    z = Doubled.apply(y)
    assert z is y and y.grad_fn.name() == "DoubledBackward" and y.tolist() == [2, 4]
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        Doubled.apply(leaf(1))


class Wrong(Function):
    returned: Any = None

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return x + y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return Wrong.returned(g)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda g: g, r"incorrect number of gradients \(expected 2, got 1\)"),
        (lambda g: (g, g, g), r"incorrect number of gradients \(expected 2, got 3\)"),
        (lambda g: (g.new_ones(3), None), r"invalid gradient at index 0 - got \[3\]"),
    ],
)
def test_wrong_gradients_are_errors(returned: Any, message: str) -> None:
    Wrong.returned = returned
    with pytest.raises(RuntimeError, match=message):
        Wrong.apply(leaf(1, 2), leaf(3, 4)).sum().backward()


def test_gradients_of_fitting_shapes_and_dtypes_are_made_to_fit() -> None:
    Wrong.returned = lambda g: (g.sum(), g.float().expand(5, 2))
    x, y = leaf(1, 2), leaf(3, 4)
    Wrong.apply(x, y).sum().backward()
    assert x.grad.tolist() == [2, 2] and y.grad.tolist() == [5, 5]
    assert y.grad.dtype is torch.float64


def test_a_gradient_that_nothing_needs_is_dropped() -> None:
    Wrong.returned = lambda g: (g, g.new_ones(7))
    x = leaf(1, 2)
    Wrong.apply(x, torch.ones(2, dtype=torch.float64)).sum().backward()
    assert x.grad.tolist() == [1, 1]


class Once(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g * ctx.saved_tensors[0]


def test_once_differentiable() -> None:
    x = leaf(3)
    Once.apply(x).backward()
    assert x.grad.tolist() == [6]
    (first,) = torch.autograd.grad(Once.apply(x), x, leaf(1), create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.backward()


def test_missing_parts_are_named() -> None:
    class Empty(Function):
        pass

    with pytest.raises(NotImplementedError, match="forward function"):
        Empty.apply(leaf(1))
    with pytest.raises(TypeError, match="can only save variables"):

        class Saver(Cube):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.save_for_backward(3)

        Saver.apply(leaf(1))

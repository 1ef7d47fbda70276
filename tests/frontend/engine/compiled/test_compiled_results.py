"""Results of compiled calls beside their values: whether they require gradients, what class they
are of, and what shares memory with what inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import frontend as torch
from frontend import nn
from frontend.engine.compiled import program
from graphc.errors import ArgumentError, GraphError, TraceError
from tests.fuzz.state import Interpreted

W = torch.ones(3, requires_grad=True)


def square() -> Any:
    return torch.arange(4.0).reshape(2, 2)


def kinds(*tensors: Any) -> list[Any]:
    return [(type(x).__name__, x.requires_grad, x.is_leaf) for x in tensors]


# -- gradients -------------------------------------------------------------------------------------


def test_enable_grad_inside_of_no_grad_records() -> None:
    def function(x: Any) -> Any:
        with torch.enable_grad():
            y = x * W * 2
        return y, x * W

    for each in (function, torch.compile(function)):
        with torch.no_grad():
            recorded, plain = each(torch.ones(3))
        assert kinds(recorded, plain) == [("Tensor", True, False), ("Tensor", False, True)]
        assert torch.autograd.grad(recorded.sum(), W)[0].tolist() == [2, 2, 2]


def test_the_loss_of_a_step_that_is_over_says_so() -> None:
    layer = nn.Linear(3, 2)

    @torch.compile
    def step(x: Any) -> Any:
        loss = layer(x).sum()
        loss.backward()
        return loss

    loss = step(torch.ones(1, 3))
    assert repr(loss) == f"tensor({loss.item():.4f}, grad_fn=<CompiledFunctionBackward>)"
    with pytest.raises(GraphError, match="step, which calls backward"):
        loss.backward()


def test_what_depends_on_a_leaf_made_inside_alone_requires_gradients() -> None:
    def function(x: Any) -> Any:
        return nn.Linear(3, 2)(x), x * 2

    for each in (function, torch.compile(function)):
        derived, plain = each(torch.ones(3))
        assert kinds(derived, plain) == [("Tensor", True, False), ("Tensor", False, True)]
        derived.sum().backward()
        with torch.no_grad():
            assert not each(torch.ones(3))[0].requires_grad


def test_leaves_made_inside_are_leaves() -> None:
    def function(x: Any) -> Any:
        return torch.zeros(2, requires_grad=True), nn.Parameter(x * 2), x * W

    want = kinds(*function(torch.ones(3)))
    assert want == [("Tensor", True, True), ("Parameter", True, True), ("Tensor", True, False)]
    compiled = torch.compile(function)
    assert kinds(*compiled(torch.ones(3))) == want == kinds(*compiled(torch.ones(3)))
    with torch.no_grad():
        assert kinds(*compiled(torch.ones(3))) == kinds(*function(torch.ones(3)))


def test_a_leaf_whose_gradient_would_be_lost_is_refused() -> None:
    def returned(x: Any) -> Any:
        leaf = torch.ones(3, requires_grad=True)
        return leaf, leaf * x

    def trained(x: Any) -> Any:
        leaf = torch.ones(3, requires_grad=True)
        (leaf * x).sum().backward()
        return leaf

    for function in (returned, trained):
        with pytest.raises(TraceError, match="made inside is returned, and has a gradient"):
            torch.compile(function, fullgraph=True)(torch.ones(3))


def test_attributes_of_results() -> None:
    def tagged(x: Any) -> Any:
        y = x * 2
        y.tag = "twice"
        return y

    compiled = torch.compile(tagged, fullgraph=True)
    assert [compiled(torch.ones(3)).tag for _ in range(2)] == ["twice", "twice"]

    def kept(x: Any) -> Any:
        y = x * 2
        y.half = x
        y.other = x * 3
        return y

    with pytest.raises(TraceError, match="an attribute of a result"):
        torch.compile(kept, fullgraph=True)(torch.ones(3))


def test_hooks_of_leaves_run_once() -> None:
    leaf = torch.ones(3, requires_grad=True)
    leaf.register_hook(lambda gradient: gradient * 2)
    torch.compile(lambda x: x * leaf)(torch.ones(3)).sum().backward()
    assert leaf.grad.tolist() == [2, 2, 2]


def test_forward_of_what_backward_cannot_pass() -> None:
    def function(x: Any) -> Any:
        y = torch.sigmoid(x * 2)
        z = y * y
        y.mul_(2)
        return z + y

    x = torch.ones(3, requires_grad=True)
    result = torch.compile(function)(x)
    assert torch.allclose(result, function(x)) and result.requires_grad
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_objects_to_compile_are_not_asked_for_attributes() -> None:
    class Raises(dict[str, float]):
        __getattr__ = dict.__getitem__

        def __call__(self, x: Any) -> Any:
            return x * self["v"]

    config = Raises(v=3.0)
    for function in (config, lambda x: x * config.v):
        assert torch.compile(function)(torch.ones(1)).item() == 3


# -- what shares memory ----------------------------------------------------------------------------

ONE = torch.tensor(1)
VIEWS: dict[str, Callable[[Any], Any]] = {
    "a row by a 0-d index": lambda x: x[ONE],
    "a column by a 0-d index": lambda x: x[:, ONE],
    "an element by two": lambda x: x[ONE, ONE],
    "a detached row": lambda x: x.detach()[ONE],
    "as_strided": lambda x: x.as_strided((2,), (1,), 1),
    "as_strided of a view": lambda x: x[1].as_strided((2,), (1,)),
    "a view of as_strided": lambda x: x.as_strided((2, 1), (1, 1), 1).view(2),
    "a Parameter": lambda x: nn.Parameter(x, requires_grad=False),
    "a Parameter of a row": lambda x: nn.Parameter(x[0], requires_grad=False),
    "reshape": lambda x: x.reshape(4),
    "reshape of a transposed": lambda x: x.t().reshape(4),
    "ravel of a transposed": lambda x: x.t().ravel(),
    "contiguous": lambda x: x.contiguous(),
    "contiguous of a transposed": lambda x: x.t().contiguous(),
    "reshape of a column": lambda x: x[:, :1].reshape(2),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("inside", [False, True], ids=["argument", "made inside"])
@pytest.mark.parametrize("name", VIEWS)
def test_memory_is_shared_as_in_eager_mode(
    name: str, inside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "compile_graph", Interpreted)
    view = VIEWS[name]

    def write(x: Any) -> Any:
        x = x * 1 if inside else x
        y = view(x)
        y.mul_(5)
        return x * 1, y * 1

    def change(x: Any) -> Any:
        x = x * 1 if inside else x
        y = view(x)
        x.add_(7)
        return x * 1, y * 1

    for function in (write, change):
        want = [x.tolist() for x in function(square())]
        assert [x.tolist() for x in torch.compile(function)(square())] == want


def test_gradients_through_views_by_index() -> None:
    def function(x: Any, index: Any) -> Any:
        y = x * 1
        row, part = y[index], y.as_strided((2,), (2,), 0)
        y.mul_(3)
        row.mul_(2)
        part.add_(row)
        return (y * y).sum()

    index, gradients = torch.tensor(1), []
    for each in (function, torch.compile(function)):
        x = square().requires_grad_()
        gradients.append(torch.autograd.grad(each(x, index), x)[0].tolist())
    x = square()
    with torch.no_grad():
        numeric = [
            [float(function(x + d, index) - function(x - d, index)) / 0.02 for d in row]
            for row in torch.eye(4).reshape(2, 2, 2, 2).mul(0.01)
        ]
    assert gradients[0] == gradients[1]
    assert torch.allclose(torch.tensor(gradients[0]), torch.tensor(numeric), rtol=1e-2)


def test_as_strided_with_repeats_is_not_written() -> None:
    def function(x: Any) -> Any:
        y = (x * 1).as_strided((3,), (0,))
        return y.add_(1)

    for each in (function, torch.compile(function)):
        with pytest.raises(RuntimeError, match="more than one element"):
            each(square().requires_grad_())


def test_as_strided_counts_from_where_the_memory_of_an_argument_begins() -> None:
    whole, starts = torch.arange(20.0), (5, 0, 7)
    compiled = torch.compile(lambda x: x.as_strided((2, 2), (1, 2), 8), fullgraph=True)
    for start in starts:
        for memory in (whole, whole.numpy()):
            part = torch.as_tensor(memory[start : start + 12])
            assert compiled(part).tolist() == part.as_strided((2, 2), (1, 2), 8).tolist()
    beside = torch.compile(lambda x: x.as_strided((2, 2), (1, 2), 0), fullgraph=True)
    for part in (whole[5:10], whole[6:11], torch.arange(30.0)[6:11]):
        eager = part.as_strided((2, 2), (1, 2), 0).tolist()
        assert beside(part).tolist() == eager == [[0, 2], [1, 3]]
    further = torch.compile(
        lambda x: x.as_strided((2,), (6,)) * x.as_strided((1,), (1,), 1), fullgraph=True
    )
    assert further(whole[5:10]).tolist() == [5, 11]
    with pytest.raises(TraceError, match=r"memory beside the f32\[5\]"):
        beside(whole[5:10].requires_grad_())


def test_what_lies_beside_an_argument_is_not_read_where_that_is_changed() -> None:
    whole = torch.arange(20.0)

    @torch.compile
    def function(x: Any) -> Any:
        x.add_(1)
        return x.as_strided((2,), (1,), 0)

    with pytest.raises(ArgumentError, match="changed in place and shares memory"):
        function(whole[5:10])
    assert whole.tolist() == list(range(20))


def test_as_strided_of_no_elements_and_narrow_dtypes() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.bool):
        x = square().to(dtype)
        assert x.as_strided((0, 2), (1, 1), 9).shape == (0, 2)
        assert torch.zeros(0).as_strided((0,), (1,)).shape == (0,)
        assert x.as_strided((2,), (2,), 1).tolist() == [1, 3 if dtype is not torch.bool else 1]


def test_the_layout_of_an_argument_counts_where_it_says_what_shares_memory() -> None:
    def function(x: Any) -> Any:
        y = x.reshape(4)
        y.zero_()
        return x * 1

    compiled = torch.compile(function)
    for x in (square(), square().t(), square()):
        assert compiled(x.t().clone().t()).tolist() == function(x.t().clone().t()).tolist()
        assert compiled(x.clone()).tolist() == function(x.clone()).tolist()
    plain = torch.compile(lambda x: x.reshape(4) * 2)
    assert plain(square().t()).tolist() == [0, 4, 2, 6] and plain(square()).tolist()[1] == 2
    assert len(plain.specializations) == 1
    asked = torch.compile(lambda x: x * 2 if x.is_contiguous() else x * 3)
    assert [asked(x)[1, 1].item() for x in (square(), square().t(), square())] == [6, 9, 6]


def test_the_memory_format_of_an_argument_is_guarded() -> None:
    rows = torch.arange(120.0).reshape(2, 3, 4, 5)
    last = rows.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    asked = torch.compile(
        lambda x: x * 2 if x.is_contiguous(memory_format=torch.channels_last) else x * 3
    )
    for x, factor in ((rows, 3), (last, 2), (rows, 3), (rows[:, :1], 3), (rows[0], 3)):
        assert asked(x).tolist() == (x * factor).tolist()

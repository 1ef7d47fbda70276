"""Shapes changed in place, and elements by a Python function."""

from __future__ import annotations

import pytest

import frontend as torch
from graphc.errors import TraceError


def test_a_tensor_takes_another_shape_and_keeps_its_memory() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    first = x[0]
    assert x.unsqueeze_(0) is x
    assert x.shape == (1, 2, 3)
    x.squeeze_(0).transpose_(0, 1).t_().swapaxes_(0, 1).swapdims_(0, 1)
    x[0, 0] = 9
    assert first.tolist() == [9, 1, 2]


def test_gradients_pass() -> None:
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    y = x * 2
    y.t_()
    y[0].mul_(3)
    (y.unsqueeze_(-1) ** 2).sum().backward()
    assert x.grad.tolist() == [[0, 8, 16], [216, 32, 40]]
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.unsqueeze_(0)
    with torch.no_grad():
        assert x.unsqueeze_(0).shape == (1, 2, 3)


def test_in_a_trace() -> None:
    def call(x):
        y = x * 2
        return y.unsqueeze_(0).mul_(2), y

    result, y = torch.compile(call, fullgraph=True)(torch.ones(2))
    assert result.tolist() == y.tolist() == [[4, 4]]
    z = torch.ones(2)
    with pytest.raises(TraceError, match="unsqueeze_ changes the shape of a tensor from before"):
        torch.compile(lambda x: x + z.unsqueeze_(0), fullgraph=True)(torch.ones(2))
    assert z.shape == (2,)


def test_elements_by_a_function() -> None:
    x = torch.tensor([[1, 2], [3, 4]])
    assert x.apply_(lambda n: n * n) is x
    assert x.tolist() == [[1, 4], [9, 16]]
    assert x.map_(torch.tensor([1, 2]), lambda a, b: a - b).tolist() == [[0, 2], [8, 14]]
    with pytest.raises(RuntimeError, match=r"Can't call apply_\(\)"):
        torch.ones(2, requires_grad=True).apply_(abs)
    with pytest.raises(TraceError, match=r"apply_\(\) needs the value of a tensor"):
        torch.compile(lambda x: x.clone().apply_(abs), fullgraph=True)(torch.ones(2))


@pytest.mark.parametrize("shape", [(1,), (3,), (1, 1)])
def test_what_fills_has_no_dimensions(shape: tuple[int, ...]) -> None:
    x, value = torch.zeros(3), torch.ones(shape)
    with pytest.raises(RuntimeError, match="fill_ only supports 0-dimension value tensor but got"):
        x.fill_(value)
    with pytest.raises(RuntimeError, match="fill_ only supports 0-dimension value tensor but got"):
        torch.fill(x, value)
    assert x.tolist() == [0, 0, 0]
    assert x.fill_(torch.tensor(2)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_number_is_copied_everywhere(compiled: bool) -> None:
    def step(rate: torch.Tensor, number: float) -> torch.Tensor:
        return rate.copy_(number) * 2

    run = torch.compile(step, fullgraph=True) if compiled else step
    rate = torch.zeros(2)
    for number in (0.5, 0.25, 3):
        assert run(rate, number).tolist() == [2 * number] * 2
        assert rate.tolist() == [number] * 2
    assert torch.zeros(1, dtype=torch.int64).copy_(2.7).tolist() == [2]
    with pytest.raises(TypeError, match="must be Tensor, not str"):
        rate.copy_("x")  # type: ignore[arg-type]

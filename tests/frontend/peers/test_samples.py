"""What PyTorch's samples of its operators showed: results written to `out`, tensors of no elements
that stay connected, ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend

IMAGE = np.random.default_rng(0).standard_normal((1, 2, 4, 4)).astype(np.float32)
OUT = {
    "linear": lambda F, x, **out: F.linear(x, x[0, 0], x[0, 0, 0], **out),
    "avg_pool2d": lambda F, x, **out: F.avg_pool2d(x, 2, **out),
    "avg_pool3d": lambda F, x, **out: F.avg_pool3d(x, 2, **out),
    "logsigmoid": lambda F, x, **out: F.logsigmoid(x, **out),
    "gelu": lambda F, x, **out: F.gelu(x, approximate="tanh", **out),
    "softplus": lambda F, x, **out: F.softplus(x, 2, **out),
    "softshrink": lambda F, x, **out: F.softshrink(x, 0.25, **out),
}


@pytest.mark.parametrize("name", OUT)
def test_results_written_to_a_tensor(peer: Any, name: str) -> None:
    call = OUT[name]
    x = peer.torch.tensor(IMAGE)
    expected = call(peer.torch.nn.functional, x)
    place = peer.torch.empty_like(expected)
    assert call(peer.torch.nn.functional, x, out=place) is place

    def run(x: Any, out: Any) -> Any:
        return call(frontend.nn.functional, x, out=out)

    for mine in (run, frontend.compile(run)):
        place = frontend.zeros(tuple(expected.shape))
        assert mine(frontend.tensor(IMAGE), place) is place
        peer.agree(place, expected)


@pytest.mark.parametrize("size, step", [(True, 1), (2, True)])
def test_unfold_takes_no_bools(peer: Any, size: Any, step: Any) -> None:
    def run(x: Any) -> Any:
        return x.unfold(0, size, step)

    with pytest.raises(TypeError, match="must be int, not bool"):
        run(peer.torch.ones(3))
    for mine in (run, frontend.compile(run)):
        with pytest.raises(TypeError, match="must be int, not bool"):
            mine(frontend.ones(3))


EMPTY = {
    "scatter_add": lambda T, x: T.zeros(2, 3).scatter_add(0, T.zeros(0, 3, dtype=T.int64), x[:0]),
    "scatter": lambda T, x: T.zeros(2, 3).scatter(0, T.zeros(0, 3, dtype=T.int64), x),
    "as_strided": lambda T, x: x[:0].as_strided((0, 2), (1, 1)),
    "householder_product": lambda T, x: T.linalg.householder_product(x.t() @ x, x[0, :0]),
    "lstsq": lambda T, x: T.linalg.lstsq(x, x, driver="gels").residuals,
}


@pytest.mark.parametrize("name", EMPTY)
def test_what_has_no_elements_stays_connected(peer: Any, name: str) -> None:
    numbers = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    theirs = peer.torch.tensor(numbers, requires_grad=True)
    expected = EMPTY[name](peer.torch, theirs)
    assert expected.requires_grad

    def run(x: Any) -> Any:
        return EMPTY[name](frontend, x)

    for mine in (run, frontend.compile(run)):
        x = frontend.tensor(numbers, requires_grad=True)
        result = mine(x)
        assert result.requires_grad
        peer.agree(result, expected)
        result.sum().backward()
        assert x.grad is not None and not x.grad.any()


@pytest.mark.parametrize("dtype", ["int64", "float32"])
def test_ties_give_the_first_positions(peer: Any, dtype: str) -> None:
    """PyTorch's positions of equal elements are not defined; values are the same, and so are the
    elements at the positions."""
    rows = np.array([[3, 1, 3, 2, 1, 3, 0, 2], [1] * 8])
    x = frontend.tensor(rows, dtype=getattr(frontend, dtype))
    y = peer.torch.tensor(rows, dtype=getattr(peer.torch, dtype))
    for k in range(1, 9):
        for call in (
            lambda T, z, k=k: T.topk(z, k),
            lambda T, z, k=k: T.topk(z, k, largest=False),
            lambda T, z, k=k: T.kthvalue(z, k, keepdim=True),
        ):
            mine = call(frontend, x)
            assert mine.values.tolist() == call(peer.torch, y).values.tolist()
            assert x.gather(1, mine.indices).tolist() == mine.values.tolist()
        assert frontend.topk(x, k).indices[1].tolist() == list(range(k))
        assert frontend.kthvalue(x, k).indices[1].item() == k - 1

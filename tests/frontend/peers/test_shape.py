"""Shapes against PyTorch: views, joining, splitting, repeating, rearranging; gradients, errors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

F32 = np.float32

# Calls on x [2, 3, 4], v [5], s [], one [1, 2, 1] and i [2, 3] of integers.
CALLS = """
x.reshape(-1, 6) | x.reshape((4, -1)) | t.reshape(x, (6, 4)) | x.reshape(shape=(24,))
x.view(4, 6) | x.view((2, -1)) | x.view(size=(24,)) | x.view_as(x.reshape(6, 4)) | s.reshape(1, 1)
x.reshape_as(x.view(6, 4)) | s.view(1) | one[0, 0].reshape(())
x.flatten() | x.flatten(0, 1) | x.flatten(1) | s.flatten() | t.flatten(x, -2) | x.ravel()
x.unflatten(2, (2, 2)) | x.unflatten(2, (2, -1)) | t.unflatten(x, 1, (3, 1)) | x.unflatten(-1, [4])
x.permute(2, 0, 1) | x.permute((2, 0, 1)) | x.permute(dims=(2, 0, 1)) | t.permute(x, (0, 2, 1))
x.transpose(0, 1) | t.transpose(x, -1, 0) | i.t() | v.t() | s.t() | x.mT | i.T | i.H | x.mH
t.adjoint(x) | x.swapaxes(0, 1) | t.swapdims(x, 0, 2) | x.swapdims(dim0=0, dim1=1)
t.swapaxes(x, axis0=0, axis1=1) | s.transpose(0, -1)
t.movedim(x, 0, 2) | t.movedim(x, (0, 1), (2, 0)) | t.moveaxis(x, (0, 1), (-1, 0)) | x.movedim(1, 0)
x.squeeze() | one.squeeze() | one.squeeze(0) | one.squeeze((0, 2)) | one.squeeze(1) | s.squeeze(0)
one.squeeze(()) | one.squeeze(axis=0) | t.squeeze(one, dim=-1)
s.unsqueeze(0) | x.unsqueeze(-4) | x.unsqueeze(3) | t.unsqueeze(v, axis=0) | x.unsqueeze(1)
v.expand(3, 5) | v.expand((2, 5)) | one.expand(3, -1, 4) | x.expand(2, -1, 3, 4) | s.expand(2, 2)
v.expand(size=(2, 5)) | t.broadcast_to(v, (2, 5)) | v.expand_as(t.ones(3, 5))
v.broadcast_to((1, 5))
v[:1].expand(0) | s.expand(()) | t.broadcast_tensors(v, one[0, :, :1], s)
t.broadcast_shapes((2, 1), (3,), 3) | t.broadcast_shapes((0,), (1,)) | t.broadcast_shapes()
t.atleast_1d(s) | t.atleast_2d(s, v) | t.atleast_3d(v) | t.atleast_3d(i)
t.atleast_3d([v, i, s, x])
t.cat([x, x], dim=1) | t.cat((x, x), axis=2) | t.cat([i, i.float()]) | t.cat([v[:0], x])
t.cat([v])
t.concat((v, v)) | t.concatenate([x, x], -1) | t.cat([i.int(), i]) | t.cat([x[:0], x])
t.stack([v, v * 2], 1) | t.stack([v, v], -1) | t.stack([i, i.float()]) | t.stack([s, s])
t.stack([v])
t.hstack((v, v)) | t.hstack((i, i)) | t.hstack((s, s)) | t.vstack((v, v)) | t.vstack((i, i.float()))
t.dstack((v, v)) | t.row_stack((v, v)) | t.column_stack((v, t.zeros(5, 2))) | t.column_stack((s, s))
t.column_stack([i, i]) | t.hstack([x, x])
v.split(2) | v.split([2, 3]) | x.split(1, dim=1) | v.split(9) | v[:0].split(2) | v[:0].split(0)
v.split([0, 5]) | x.split((1, 2), -2) | t.split(v, 2) | v.split_with_sizes([1, 4])
v.chunk(2) | v.chunk(7) | x.chunk(3, 1) | v[:0].chunk(3) | t.chunk(input=v, chunks=4, dim=0)
x.unbind() | x.unbind(2) | t.unbind(x, dim=-2) | v.unbind() | v[:0].unbind()
t.tensor_split(v, 2) | t.tensor_split(v, 7) | t.tensor_split(v, (1, 3)) | t.tensor_split(v, (3, 1))
t.tensor_split(v, [-2]) | x.tensor_split(3, dim=2) | t.tensor_split(v, (1, 9)) | v.tensor_split(())
t.hsplit(v, 5) | t.hsplit(x, 3) | x.vsplit(2) | t.dsplit(x, 2) | t.dsplit(x, [1, 2])
t.hsplit(x, (1,))
x.narrow(1, 1, 2) | t.narrow(x, 2, -2, 2) | v.narrow(0, 5, 0)
t.flip(x, (0,)) | x.flip(0, 1) | x.flip([-1]) | x.flip(dims=(0, 2)) | s.flip(()) | v[:0].flip(0)
t.fliplr(i) | t.flipud(v) | x.fliplr() | t.rot90(i) | t.rot90(i, 2) | t.rot90(i, -1, (1, 0))
t.rot90(x, 1, (0, 2)) | i.rot90(4) | i.rot90(3, [0, 1])
t.roll(i, 1) | t.roll(i, (1, 2), (0, 1)) | x.roll(-1, 0) | x.roll(shifts=(3, 1), dims=(2, -3))
t.roll(s, 1) | v[:0].roll(1, 0) | x.roll(0, 1) | x.roll((1, 1), (0, 0)) | v.roll(7)
x.repeat(2, 1, 1) | x.repeat((2, 1, 1, 2)) | v.repeat(3) | v.repeat(2, 0) | s.repeat(3)
v.repeat(1)
x.repeat(1, 1, 2) | s.repeat(())
t.tile(i, (2,)) | i.tile(2, 1, 1) | t.tile(x, (2, 2)) | v.tile((3,)) | t.tile(s, (2,))
i.tile(dims=(2, 1))
t.repeat_interleave(x, 2) | t.repeat_interleave(x, 2, dim=1) | x.repeat_interleave(3, -1)
t.repeat_interleave(s, 3) | v.repeat_interleave(1)
t.repeat_interleave(v, 0) | x.repeat_interleave(1, 0)
t.meshgrid(v, v[:2]) | t.meshgrid(v, v[:2], indexing='xy')
t.meshgrid([v, v[:2], v[:3]], indexing='xy')
t.meshgrid(v, s, indexing='ij') | t.meshgrid(v, indexing='xy')
t.cartesian_prod(v[:2], v[:3]) | t.cartesian_prod(v) | t.cartesian_prod(v[:2], v[:0])
t.combinations(v[:3]) | t.combinations(v[:3], 3) | t.combinations(v[:3], 2, True)
t.combinations(v, 0)
t.combinations(v[:1], 2) | t.combinations(v, r=1)
t.block_diag(i, v, s) | t.block_diag(v[:0], i) | t.block_diag(x[0], x[1, :2]) | t.block_diag()
x.contiguous() | x.transpose(0, 1).contiguous()
(x.size(1), x.size(-1), t.numel(x), x.numel(), x.dim())
"""
TEXTS = [part.strip() for line in CALLS.strip().splitlines() for part in line.split("|")]


def evaluated(t: Any, text: str, x: Any, v: Any, s: Any, one: Any, i: Any) -> Any:
    result = eval(text, {"t": t, "x": x, "v": v, "s": s, "one": one, "i": i})
    if isinstance(result, tuple) and any(isinstance(n, int) for n in result):
        return [t.tensor(list(result), dtype=t.int64)]
    return result


@pytest.fixture
def arrays(peer: Any) -> list[np.ndarray]:
    return [peer.normal(2, 3, 4), peer.normal(5), np.array(2.5, F32), peer.normal(1, 2, 1),
            np.array([[1, 2, 3], [4, 5, 6]])]  # fmt: skip


@pytest.mark.parametrize("line", CALLS.strip().splitlines())
def test_compiled(peer: Any, arrays: list[np.ndarray], line: str) -> None:
    """A line of calls as one function."""

    def call(t: Any, *tensors: Any) -> Any:
        return [evaluated(t, part.strip(), *tensors) for part in line.split("|")]

    peer.function(call, *arrays, modes=["compiled"])


@pytest.mark.parametrize("text", TEXTS)
def test_eager(peer: Any, arrays: list[np.ndarray], text: str) -> None:
    call = lambda t, *tensors: evaluated(t, text, *tensors)  # noqa: E731
    peer.function(call, *arrays, modes=["eager"])


def test_positions_repeated_by_a_tensor(peer: Any) -> None:
    x, times = peer.normal(3, 2), np.array([2, 0, 3])

    def call(t: Any, x: Any, times: Any) -> Any:
        results = [
            t.repeat_interleave(x, times, dim=0, output_size=5),
            t.repeat_interleave(times, output_size=5),
        ]
        return results

    peer.function(call, x, times)
    peer.function(
        lambda t, x, times: (
            t.repeat_interleave(x, times, 0), t.repeat_interleave(times),
            t.repeat_interleave(x, times[:1], 1),
        ), x, times,
        modes=["eager"],
    )  # fmt: skip


def test_split_at_a_tensors_positions(peer: Any) -> None:
    peer.function(
        lambda t, x: [t.tensor_split(x, t.tensor([1, 3])), t.tensor_split(x, t.tensor(2))],
        peer.normal(5), modes=["eager"],
    )  # fmt: skip


VIEWS = """
x.view(6, 4) | x.reshape(-1) | x.transpose(0, 1) | x.permute(2, 0, 1) | x.T | x.squeeze()
x.unsqueeze(0) | x.narrow(1, 0, 2) | x.split(2)[0] | x.chunk(2)[1] | x.unbind()[1] | x.flatten(1)
x.movedim(0, 1) | x.unflatten(2, (2, 2)) | x.tensor_split(3)[0] | x.view_as(x) | x.mT | x.ravel()
x.flip(0) | x.roll(1, 0) | x.repeat(1, 1, 1) | x.contiguous() | x.tile(1) | x.rot90(4) | t.cat([x])
x.repeat_interleave(1, 0) | t.atleast_3d(x) | x.detach() | x.roll(0, 0) | x.hsplit(3)[0]
t.stack([x])
"""


@pytest.mark.parametrize("text", [part.strip() for line in VIEWS.strip().splitlines()
                                  for part in line.split("|")])  # fmt: skip
def test_what_shares_memory(peer: Any, text: str) -> None:
    """A write to the result is seen in the original in both systems, or in neither."""
    x = peer.normal(2, 3, 4)

    def write(t: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            base = t.tensor(x)
            eval(text, {"t": t, "x": base}).fill_(7.0)
        return base.numpy().copy()

    import frontend

    np.testing.assert_array_equal(write(frontend), write(peer.torch))


REFUSED = """
x.reshape(5, 5) | x.reshape(-1, -1) | x.reshape(-1, 5) | x.reshape(-2, 12) | e.reshape(-1, 0)
x.transpose(0, 1).view(6, 4) | x.flatten(1, 0) | x.unflatten(2, (3, 2)) | x.unflatten(2, (-1, -1))
x.unflatten(2, ()) | x.permute(0, 1) | x.permute(0, 0, 1) | x.t() | v.mT | x.H | t.adjoint(v)
t.moveaxis(x, (0, 1), (2, 2)) | t.movedim(x, (0, 1), (2,)) | t.movedim(x, 5, 0) | x.squeeze(5)
x.squeeze((0, 0)) | s.unsqueeze(1) | x.unsqueeze(-5) | x.expand(-1, -1, -1, 4) | v.expand(-1, 5)
v.expand(3, 4) | x.expand(3) | t.broadcast_shapes((2,), (3,)) | t.broadcast_tensors(v, v[:3])
t.cat([v, i]) | t.cat([]) | t.cat([s, s]) | t.cat([x, x], 3) | t.cat([x, v]) | t.cat([x, x[:1]], 1)
t.cat(x) | t.cat([x, 3]) | t.stack([v, v[:2]]) | t.stack([]) | t.stack(x) | t.vstack((v, x))
t.stack([v, v], 3) | t.hstack([]) | t.cat([v, v], out=t.zeros(3).long())
v.split([2, 2]) | v.split(0) | v.split(2, dim=1) | s.split(1) | v.split(-1) | v.split([6, -1])
v.chunk(0) | s.chunk(1) | s.unbind() | x.unbind(3) | t.tensor_split(v, 0) | t.tensor_split(s, 1)
t.hsplit(v, 2) | t.hsplit(s, 3) | t.vsplit(v, 2) | t.dsplit(i, 1) | x.narrow(1, 2, 2)
x.narrow(1, 0, -1) | s.narrow(0, 0, 1) | x.narrow(1, 5, 1) | x.narrow(4, 0, 1)
x.flip(0, 0) | x.flip(4) | t.fliplr(v) | t.flipud(s) | t.rot90(i, 1, (0, 0)) | t.rot90(v)
t.rot90(x, 1, (1,)) | t.roll(i, (1, 2), 0) | t.roll(i, (1, 2)) | t.roll(s, 1, 0) | i.roll(1, 5)
i.repeat(2) | i.repeat(-1, 1) | t.repeat_interleave(i, -1)
t.repeat_interleave(i, t.tensor([1, 2]))
t.repeat_interleave(i, t.tensor([1, 2]), dim=0, output_size=4)
t.repeat_interleave(t.tensor([1.5]))
t.repeat_interleave(i, t.tensor([1, -2]), dim=0) | t.meshgrid(v, v, indexing='q') | t.meshgrid(i, v)
t.meshgrid() | t.meshgrid(v, v.long()) | t.cartesian_prod(i) | t.combinations(i) | t.block_diag(x)
t.numel(3) | t.combinations(v, -1) | t.reshape(3, (1,)) | x.size(5)
"""


@pytest.mark.parametrize("text", [part.strip() for line in REFUSED.strip().splitlines()
                                  for part in line.split("|")])  # fmt: skip
def test_what_pytorch_refuses(peer: Any, text: str) -> None:
    def call(t: Any) -> Any:
        names = {
            "t": t, "x": t.arange(24.0).reshape(2, 3, 4), "v": t.arange(5.0), "s": t.tensor(2.0),
            "i": t.tensor([[1, 2, 3], [4, 5, 6]]), "e": t.zeros(0),
        }  # fmt: skip
        return eval(text, names)

    peer.refusal(call)


IN_PLACE = """
y.unsqueeze_(0) | y.squeeze_(0) | y.transpose_(0, 1) | y.swapaxes_(0, 2)
y.swapdims_(dim0=0, dim1=1) | y.unsqueeze_(-1).mul_(2) | y.transpose_(0, 1).add_(x.transpose(0, 1))
y[0].unsqueeze_(0).fill_(3.0) | y.select(0, 1).t_().zero_() | y.squeeze_().exp_()
"""


@pytest.mark.parametrize("text", [part.strip() for line in IN_PLACE.strip().splitlines()
                                  for part in line.split("|")])  # fmt: skip
def test_shape_changed_in_place(peer: Any, text: str) -> None:
    def call(t: Any, x: Any) -> Any:
        y = x * 1
        return eval(text, {"t": t, "x": x, "y": y}), y

    peer.function(call, peer.normal(1, 3, 4) if "[0]" in text else peer.normal(2, 3, 4))


def test_elements_by_a_function(peer: Any) -> None:
    def call(t: Any, x: Any, y: Any) -> Any:
        with t.no_grad():
            a, b = x.detach().clone(), x.detach().clone()
            return a.apply_(lambda n: n * 2 + 1), b.map_(y.detach(), lambda n, k: n - k)

    peer.function(call, peer.normal(2, 3), peer.normal(3), modes=["eager"])
    peer.refusal(lambda t: t.ones(2, requires_grad=True).apply_(abs))
    peer.refusal(lambda t: t.ones(2, requires_grad=True).unsqueeze_(0))


def test_what_is_overwritten_has_gradient_zero(peer: Any) -> None:
    def call(t: Any, x: Any) -> Any:
        results = [(x * 1).zero_(), (x * 2).fill_(3.0), (x * 3).copy_(t.ones(3)), x * 4]
        results[3][1:].fill_(2.0)
        return results

    peer.function(call, peer.normal(2, 3))

"""Views, joining, splitting, repeating and rearranging against NumPy; gradients; refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from graphc.errors import TraceError

X = np.random.default_rng(0).standard_normal((2, 3, 4))
V = X[0, 0]

CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "reshape": (lambda x, v: x.reshape(-1, 6), X.reshape(4, 6)),
    "flatten": (lambda x, v: x.flatten(1), X.reshape(2, 12)),
    "unflatten": (lambda x, v: x.unflatten(2, (2, -1)), X.reshape(2, 3, 2, 2)),
    "permute": (lambda x, v: x.permute(2, 0, 1), X.transpose(2, 0, 1)),
    "movedim": (lambda x, v: torch.movedim(x, (0, 1), (2, 0)), np.moveaxis(X, (0, 1), (2, 0))),
    "swapaxes": (lambda x, v: x.swapaxes(0, -1), X.swapaxes(0, -1)),
    "mT": (lambda x, v: x.mT, X.swapaxes(1, 2)),
    "T": (lambda x, v: x[0].T, X[0].T),
    "expand": (lambda x, v: v.expand(2, -1), np.broadcast_to(V, (2, 4))),
    "squeeze": (lambda x, v: x[:1, :, :1].squeeze((0, 2)), X[0, :, 0]),
    "atleast_3d": (lambda x, v: torch.atleast_3d(v), V[None, :, None]),
    "cat": (lambda x, v: torch.cat((x, x[:, :1]), 1), np.concatenate((X, X[:, :1]), 1)),
    "stack": (lambda x, v: torch.stack((v, -v), 1), np.stack((V, -V), 1)),
    "hstack": (lambda x, v: torch.hstack((x, x)), np.hstack((X, X))),
    "vstack": (lambda x, v: torch.vstack((v, v)), np.vstack((V, V))),
    "dstack": (lambda x, v: torch.dstack((v, v)), np.dstack((V, V))),
    "column_stack": (lambda x, v: torch.column_stack((v, v)), np.column_stack((V, V))),
    "split": (lambda x, v: x.split([1, 3], 2)[1], X[..., 1:]),
    "chunk": (lambda x, v: x.chunk(2, -1)[1], X[..., 2:]),
    "unbind": (lambda x, v: x.unbind(1)[2], X[:, 2]),
    "tensor_split": (lambda x, v: x.tensor_split(3, 2)[0], X[..., :2]),
    "hsplit": (lambda x, v: torch.hsplit(x, (1,))[1], X[:, 1:]),
    "narrow": (lambda x, v: x.narrow(1, -2, 2), X[:, 1:]),
    "flip": (lambda x, v: x.flip(0, 2), X[::-1, :, ::-1]),
    "rot90": (lambda x, v: torch.rot90(x, 3, (1, 2)), np.rot90(X, 3, (1, 2))),
    "roll": (lambda x, v: x.roll((1, -2), (0, 2)), np.roll(X, (1, -2), (0, 2))),
    "roll-flat": (lambda x, v: x.roll(5), np.roll(X, 5)),
    "repeat": (lambda x, v: v.repeat(2, 3), np.tile(V, (2, 3))),
    "tile": (lambda x, v: x.tile((2,)), np.tile(X, 2)),
    "repeat_interleave": (lambda x, v: x.repeat_interleave(2, 1), np.repeat(X, 2, 1)),
    "meshgrid": (lambda x, v: torch.meshgrid(v, v[:2], indexing="xy")[1],
                 np.meshgrid(V, V[:2])[1]),
    "cartesian_prod": (lambda x, v: torch.cartesian_prod(v[:2], v[2:]),
                       np.array([[V[0], V[2]], [V[0], V[3]], [V[1], V[2]], [V[1], V[3]]])),
    "combinations": (lambda x, v: torch.combinations(v[:3]),
                     np.array([[V[0], V[1]], [V[0], V[2]], [V[1], V[2]]])),
    "block_diag": (lambda x, v: torch.block_diag(v[:2], v[2:, None]),
                   np.array([[V[0], V[1], 0], [0, 0, V[2]], [0, 0, V[3]]])),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name: str) -> None:
    call, want = CASES[name]
    x, v = torch.tensor(X), torch.tensor(V)
    for run in (call, torch.compile(call)):
        np.testing.assert_array_equal(run(x, v).numpy(), want)
    leaves = [x.requires_grad_(), v.requires_grad_()]
    actual = call(*leaves)
    weights = torch.arange(actual.numel(), dtype=torch.float64).reshape(actual.shape)
    gradients = torch.autograd.grad(actual, leaves, weights, allow_unused=True)
    # Each element's gradient is the sum of the weights of its copies: <g, x> = <w, f(x)>.
    pairs = [(g, y) for g, y in zip(gradients, leaves, strict=True) if g is not None]
    total = sum((g * y).sum().item() for g, y in pairs)
    assert total == pytest.approx((actual * weights).sum().item())


def test_views_and_copies() -> None:
    x = torch.zeros(2, 3)
    for view in (x.view(6), x.t(), x.unsqueeze(0), x.split(1)[0], x.unbind()[0], x.narrow(1, 0, 1)):
        view.add_(1)
    assert x.tolist() == [[6, 5, 5], [4, 3, 3]]
    for copy in (x.flip(0), x.roll(0, 0), x.repeat(1, 1), x.tile(1), x.rot90(0),
                 x.repeat_interleave(1, 0)):  # fmt: skip
        copy.zero_()
    assert x.tolist() == [[6, 5, 5], [4, 3, 3]]


def test_promotion_when_joined() -> None:
    whole, real = torch.tensor([1, 2]), torch.tensor([0.5])
    assert torch.cat((whole, real)).dtype is torch.float32
    assert torch.stack((whole.int(), whole)).dtype is torch.int64
    assert torch.cat((torch.zeros(0), whole.reshape(1, 2))).shape == (1, 2)
    x = torch.ones(1, 2, requires_grad=True)
    none = torch.ones(0, requires_grad=True)
    torch.cat((none, x)).sum().backward()
    assert none.grad.shape == (0,) and x.grad.tolist() == [[1, 1]]


def test_empty_parts() -> None:
    x = torch.zeros(0, 3)
    assert [p.shape for p in x.split(2)] == [(0, 3)]
    assert [p.shape for p in x.chunk(3)] == [(0, 3)] * 3
    assert x.unbind() == ()
    assert [len(p) for p in torch.arange(3).tensor_split(5)] == [1, 1, 1, 0, 0]
    assert torch.arange(3).tensor_split((2, 1))[2].tolist() == [1, 2]
    assert x.flip(0).shape == x.roll(1, 0).shape == (0, 3)
    assert torch.block_diag().shape == (1, 0)


def test_repeats_of_a_tensor() -> None:
    x, times = torch.tensor([[1.0], [2], [3]], requires_grad=True), torch.tensor([2, 0, 1])
    call = lambda x, n: torch.repeat_interleave(x, n, 0, output_size=3)  # noqa: E731
    for run in (call, torch.compile(call, fullgraph=True)):
        result = run(x, times)
        assert result.tolist() == [[1], [1], [3]]
        assert torch.autograd.grad(result.sum(), x)[0].tolist() == [[2], [0], [1]]
    assert torch.repeat_interleave(times).tolist() == [0, 0, 2]
    with pytest.raises(RuntimeError, match="allocated size"):
        torch.repeat_interleave(x, times, 0, output_size=4)
    with pytest.raises(TraceError, match="output_size"):
        torch.compile(lambda x, n: x.repeat_interleave(n, 0), fullgraph=True)(x, times)
    with pytest.raises(RuntimeError, match="must have the same size"):
        x.repeat_interleave(times[:2], 0)
    with pytest.raises(RuntimeError, match="can not be negative"):
        x.repeat_interleave(-times, 0)


def test_broadcast_shapes() -> None:
    assert torch.broadcast_shapes((2, 1), 3, ()) == torch.Size([2, 3])
    with pytest.raises(RuntimeError, match="do not broadcast"):
        torch.broadcast_shapes((2,), (3,))


REFUSED = [
    (lambda x: x.reshape(5, 5), r"shape '\[5, 5\]' is invalid for input of size 24"),
    (lambda x: x.reshape(-1, -1), "only one dimension can be inferred"),
    (lambda x: x.reshape(-2, 3), "invalid shape dimension -2 at index 0"),
    (lambda x: x.transpose(0, 1).view(24), "view size is not compatible"),
    (lambda x: x.permute(2, 1, 0).view(torch.int16), "must be 1 to view"),
    (lambda x: x.unflatten(2, (3, 2)), "don't multiply up to the size of dim 2"),
    (lambda x: x.permute(0, 1), "number of dimensions"),
    (lambda x: x.expand(-1, 2, 3, 4), "leading, non-existing dimension 0"),
    (lambda x: x.expand(5, 3, 4), r"expanded size of the tensor \(5\)"),
    (lambda x: torch.movedim(x, (0, 1), (2, 2)), "repeated dim in `destination`"),
    (lambda x: torch.cat((x, x[:1]), 1), "Expected size 2 but got size 1"),
    (lambda x: torch.cat((x, x[0])), "same number of dimensions: got 3 and 2"),
    (lambda x: torch.stack((x, x[:1])), "stack expects each tensor to be equal size"),
    (lambda x: x.split([1, 2]), "to sum exactly to 2"),
    (lambda x: torch.hsplit(x, 2), "not divisible by the split_size 2"),
    (lambda x: x.narrow(1, 2, 2), r"start \(2\) \+ length \(2\) exceeds"),
    (lambda x: torch.rot90(x, 1, (0, 0)), "rotation dims to be different"),
    (lambda x: x.roll((1, 2), 0), "shifts and dimensions must align"),
    (lambda x: x.repeat(2), "can not be smaller"),
    (lambda x: torch.meshgrid(x[0, 0], indexing="ab"), "indexing must be one of"),
    (lambda x: torch.block_diag(x), "2 or fewer dimensions. Input 0 has 3"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[text for _, text in REFUSED])
def test_what_does_not_fit(call: Callable[..., Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call(torch.zeros(2, 3, 4))


def test_types_of_other_errors() -> None:
    x = torch.zeros(2)
    for call, kind, words in (
        (lambda: torch.cat([]), ValueError, "expected a non-empty list of Tensors"),
        (lambda: torch.cat(x), TypeError, "must be tuple of Tensors, not Tensor"),
        (lambda: torch.cat([x, 3]), TypeError, "expected Tensor as element 1 in argument 0"),
        (lambda: x.unsqueeze(3), IndexError, "but got 3"),
        (lambda: torch.numel(3), TypeError, "must be Tensor, not int"),
    ):
        with pytest.raises(kind, match=words):
            call()


COLUMNS = np.asfortranarray(X)
OWN: dict[str, Callable[[Any], Any]] = {
    "cat": lambda x: torch.cat([x, x], 1),
    "column_stack": lambda x: torch.column_stack([x[0], x[0]]),
    "dstack": lambda x: torch.dstack([x, x]),
    "roll": lambda x: x.roll(1, 0),
    "fftshift": torch.fft.fftshift,
    "topk": lambda x: x.topk(2, 1),
    "kthvalue": lambda x: x.kthvalue(2, 2),
    "multinomial": lambda x: x[0].abs().multinomial(2),
    "cut": lambda x: torch.nn.functional.pad(x, (0, -1)),
    "padded by nothing": lambda x: torch.nn.functional.pad(x, (0, 0)),
    "wrapped by less": lambda x: torch.nn.functional.pad(x, (0, -1), "circular"),
    "reflected": lambda x: torch.nn.functional.pad(x, (1, 1), "reflect"),
    "pixel_shuffle": lambda x: torch.nn.functional.pixel_shuffle(x.repeat(2, 1, 1), 2),
    "pixel_shuffle by one": lambda x: torch.nn.functional.pixel_shuffle(x, 1),
    "pixel_unshuffle": lambda x: torch.nn.functional.pixel_unshuffle(x[:, :2], 2),
    "lu_solve": lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x[0, :, :3]), x[1]),
}


@pytest.mark.parametrize("array", [X, COLUMNS], ids=["rows", "columns"])
@pytest.mark.parametrize("name", OWN)
def test_results_lie_row_by_row_in_memory_of_their_own(name: str, array: np.ndarray) -> None:
    """Whatever order the axes of the operand have: `view(-1)` is not refused, and a change of the
    result is none of the operand."""
    x = torch.from_numpy(array.copy("K"))
    with torch.no_grad():
        results = OWN[name](x)
    for result in results if isinstance(results, tuple) else (results,):
        assert result.is_contiguous() and result.view(-1).numel() == result.numel()
        result.zero_()
    np.testing.assert_array_equal(x.numpy(), array)


def test_images_with_channels_last_are_joined_so() -> None:
    x = torch.rand(2, 4, 5, 3).permute(0, 3, 1, 2)
    assert torch.cat([x, x]).stride() == (60, 1, 15, 3)


def test_memory_formats_are_told_by_strides() -> None:
    rows = torch.zeros(2, 3, 4, 5)
    last = torch.zeros(2, 4, 5, 3).permute(0, 3, 1, 2)
    deep = torch.zeros(2, 4, 5, 6, 3).permute(0, 4, 1, 2, 3)
    formats = (torch.contiguous_format, torch.channels_last, torch.channels_last_3d)
    told = {
        name: [x.is_contiguous(memory_format=each) for each in formats]
        for name, x in {
            "rows": rows, "last": last, "deep": deep, "one channel": rows[:, :1].contiguous(),
            "one place": torch.zeros(2, 3, 1, 1), "a part": last[:, :2], "flat": rows.flatten(),
            "empty": rows[:0],
        }.items()
    }  # fmt: skip
    assert told == {
        "rows": [True, False, False], "last": [False, True, False], "deep": [False, False, True],
        "one channel": [True, True, False], "one place": [True, True, False],
        "a part": [False, False, False], "flat": [True, False, False],
        "empty": [True, False, False],
    }  # fmt: skip
    with pytest.raises(TypeError, match=r"must be torch\.memory_format, not NoneType"):
        rows.is_contiguous(memory_format=None)

"""Tensor: values, types, views, indexing, in-place operations, printing. Expected values are those
PyTorch 2.13 gives."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import frontend as torch

T = torch.tensor


def values(tensor: torch.Tensor) -> list:
    return tensor.detach().tolist()


def grid() -> torch.Tensor:
    return T([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])


def test_creation_takes_dtype_from_data() -> None:
    assert T(3).dtype is torch.int64
    assert T([1, 2.5]).dtype is torch.float32
    assert T(True).dtype is torch.bool
    assert T([]).dtype is torch.float32
    assert T(np.arange(3.0)).dtype is torch.float64
    assert torch.zeros(2, 3).shape == (2, 3)
    assert torch.full((2,), 3).dtype is torch.int64
    assert values(torch.arange(5, 0, -2)) == [5, 3, 1]
    assert values(torch.linspace(0, 1, 5)) == [0, 0.25, 0.5, 0.75, 1]
    assert torch.zeros_like(T([1, 2])).dtype is torch.int64
    assert values(grid().new_full((2,), 7)) == [7, 7]


def test_tensor_copies_and_from_numpy_shares() -> None:
    array = np.zeros(3, np.float32)
    copied, shared = T(array), torch.from_numpy(array)
    array[0] = 5
    assert values(copied) == [0, 0, 0]
    assert values(shared) == [5, 0, 0]
    shared[1] = 6
    assert array[1] == 6
    assert torch.as_tensor(shared) is shared


def test_arrays_of_negative_strides_are_shared_too() -> None:
    array = np.arange(6.0).reshape(2, 3)[:, ::-1]
    shared = torch.from_numpy(array)
    shared[0, 0] = 50
    assert array[0].tolist() == [50, 1, 0]
    assert torch.compile(lambda x: x.sum(1))(shared).tolist() == [51, 12]
    copied = T(array)
    copied[0, 0] = 7
    assert array[0, 0] == 50


def test_shape_and_size() -> None:
    x = torch.zeros(2, 3)
    assert x.size() == (2, 3) and x.size(1) == 3 and x.numel() == 6 and x.dim() == x.ndim == 2
    assert x.shape.numel() == 6
    assert repr(x.shape) == "torch.Size([2, 3])"
    assert len(x) == 2
    assert torch.zeros(0, 3).sum(0).tolist() == [0, 0, 0]


def test_item_and_truth() -> None:
    assert T(2.5).item() == 2.5 and float(T(2.5)) == 2.5 and int(T(3)) == 3
    assert bool(T([1])) and not T(False)
    assert [10, 20, 30][T(1)] == 20
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        grid().item()
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        bool(grid())
    with pytest.raises(TypeError, match="len\\(\\) of a 0-d tensor"):
        len(T(1))


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (0, [1, -2, 3]),
        ((1, -1), -6),
        ((slice(None), 1), [-2, 5]),
        ((..., None, slice(None, None, 2)), [[[1, 3]], [[4, -6]]]),
        ([0, 1, 1], [[1, -2, 3], [4, 5, -6], [4, 5, -6]]),
        (([0, 1], [2, 0]), [3, 4]),
        ((slice(None), [0, -1]), [[1, 3], [4, -6]]),
        (slice(5, None), []),
        (None, [[[1, -2, 3], [4, 5, -6]]]),
    ],
)
def test_indexing(index: object, expected: object) -> None:
    assert values(grid()[index]) == expected


def test_indexing_by_tensors_and_masks() -> None:
    x = grid()
    assert values(x[x > 2]) == [3, 4, 5]
    assert values(x[T([[0, 1], [1, 0]])][1, 0]) == [4, 5, -6]
    assert values(x[T([0, -1]), 1:]) == [[-2, 3], [5, -6]]
    y = x.reshape(2, 3, 1)
    assert y.unsqueeze(0)[:, [0, 1], :, None].shape == (1, 2, 3, 1, 1)
    assert y[[0, 1], :, [0, 0]].shape == (2, 3)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (5, "index 5 is out of bounds for dimension 0 with size 2"),
        ((0, 0, 0), "too many indices for tensor of dimension 2"),
        (([0], [9]), "index 9 is out of bounds for dimension 1 with size 3"),
    ],
)
def test_index_out_of_range(index: object, words: str) -> None:
    with pytest.raises(IndexError, match=words):
        grid()[index]


def test_views_share_memory_and_version() -> None:
    x = torch.zeros(2, 3)
    row, flat, turned = x[0], x.view(-1), x.t()
    row += 1
    flat[4] = 7
    turned[2, 1] = 9
    assert values(x) == [[1, 1, 1], [0, 7, 9]]
    assert x._version == row._version == flat._version == turned._version == 3
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        x.t().view(-1)
    assert values(x.clone().zero_()) == [[0, 0, 0], [0, 0, 0]]
    assert x.sum().item() == 19


def test_index_assignment() -> None:
    x = torch.zeros(2, 3)
    x[0] = 1
    x[:, 2] = T([7, 8])
    x[x == 0] = -1
    x[[0, 1], [0, 1]] = T([5.0, 6.0])
    assert values(x) == [[5, 1, 7], [-1, 6, 8]]
    with pytest.raises(RuntimeError, match=r"expanded size of the tensor \(3\) must match"):
        x[0] = torch.ones(5)
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension 0"):
        x[4] = 0


def test_in_place_operations() -> None:
    x = T([1.0, 2.0])
    y = x
    x += 1
    x *= 2
    x -= T([1, 2])
    x /= 2
    assert y is x and values(x) == [1.5, 2]
    assert values(x.clamp_(max=1.75)) == [1.5, 1.75]
    assert values(x.copy_(T([3]))) == [3, 3]
    assert values(x.sub_(T([1, 2]), alpha=2)) == [1, -1]
    assert values(x.addcmul_(x, x, value=3)) == [4, 2]
    assert values(x.addcdiv_(x, T([2.0, 4.0]))) == [6, 2.5]
    assert values(x.lerp_(T([0.0, 0.0]), 0.5)) == [3, 1.25]
    counts = torch.arange(3)
    counts += 1
    counts //= 2
    assert values(counts) == [0, 1, 1]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: T([1, 2]).add_(1.5), "result type Float can't be cast"),
        (lambda: torch.ones(2).add_(torch.ones(3, 2)), "doesn't match the broadcast shape"),
        (lambda: torch.ones(1).expand(3).add_(1), "more than one element of the written-to"),
        (lambda: torch.ones(2, 3) + torch.ones(4), "The size of tensor a \\(3\\) must match"),
        (lambda: torch.ones(2, 3) @ torch.ones(4, 5), "\\(2x3 and 4x5\\)"),
        (lambda: grid().reshape(4, 4), "shape '\\[4, 4\\]' is invalid for input of size 6"),
        (lambda: torch.cat([torch.ones(2, 3), torch.ones(3, 2)]), "Sizes of tensors must match"),
        (lambda: grid().expand(3, 3), "The expanded size of the tensor \\(3\\)"),
        (lambda: -(grid() > 0), "on a bool tensor is not supported"),
    ],
)
def test_errors_are_in_pytorchs_words(action: object, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        action()


def test_errors_name_the_users_line() -> None:
    with pytest.raises(torch_error(), match=r"test_tensor\.py:"):
        torch.ones(2, 3) @ torch.ones(4, 5)
    with pytest.raises(torch_error(), match=r"test_tensor\.py:"):
        torch.nn.functional.embedding(T([9]), torch.ones(3, 2))


def torch_error() -> type[Exception]:
    from graphc import GraphError

    return GraphError


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (T(1.5), "tensor(1.5000)"),
        (T([1.0, 2.0]), "tensor([1., 2.])"),
        (T([1.5, -2.25, 1000.123]), "tensor([   1.5000,   -2.2500, 1000.1230])"),
        (T([float("nan"), 1.0, float("inf")]), "tensor([nan, 1., inf])"),
        (T([[1, 2], [30, -4]]), "tensor([[ 1,  2],\n        [30, -4]])"),
        (torch.zeros(0, 3), "tensor([], size=(0, 3))"),
        (T([1.0], dtype=torch.float64), "tensor([1.], dtype=torch.float64)"),
        (T([1.0], requires_grad=True), "tensor([1.], requires_grad=True)"),
        (T([1.0], requires_grad=True) * 2, "tensor([2.], grad_fn=<MulBackward0>)"),
        (torch.arange(2000), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"),
    ],
)
def test_printing(tensor: torch.Tensor, text: str) -> None:
    assert repr(tensor) == text


def test_reductions_with_dim_give_values_and_indices() -> None:
    top = grid().max(1)
    assert values(top.values) == [3, 5] and values(top.indices) == [2, 1]
    least, where = grid().min(0, keepdim=True)
    assert values(least) == [[1, -2, -6]] and values(where) == [[0, 0, 1]]
    assert grid().argmax().item() == 4
    assert T([True, False]).sum().dtype is torch.int64
    with pytest.raises(RuntimeError, match="could not infer output dtype"):
        T([1, 2]).mean()
    assert torch.isnan(torch.zeros(0).mean())


def test_conversion_to_numpy() -> None:
    assert np.asarray(grid()).sum() == 5
    with pytest.raises(RuntimeError, match="Can't call numpy\\(\\) on Tensor that requires grad"):
        grid().requires_grad_().numpy()
    assert grid().to(torch.float64).dtype is torch.float64
    assert grid().long().type() == "torch.LongTensor"
    assert grid().to("cpu").device == torch.device("cpu")
    with pytest.raises(AssertionError, match="CUDA"):
        grid().cuda()


def test_copies() -> None:
    x = grid().requires_grad_()
    x.grad = torch.ones(2, 3)
    twin = copy.deepcopy(x)
    assert twin.requires_grad and values(twin.grad) == values(x.grad) and twin is not x
    twin.data[0, 0] = 100
    assert x[0, 0].item() == 1
    again = pickle.loads(pickle.dumps(x))
    assert values(again) == values(x) and again.requires_grad
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)


def test_random_streams_repeat() -> None:
    torch.manual_seed(3)
    first = [torch.rand(4), torch.randn(5), torch.randint(0, 9, (3,)), torch.randperm(6)]
    state = torch.get_rng_state()
    more = torch.rand(2)
    torch.manual_seed(3)
    second = [torch.rand(4), torch.randn(5), torch.randint(0, 9, (3,)), torch.randperm(6)]
    assert all(torch.equal(a, b) for a, b in zip(first, second))
    torch.set_rng_state(state)
    assert torch.equal(torch.rand(2), more)
    assert sorted(first[3].tolist()) == list(range(6))
    numbers = torch.randn(20000)
    assert abs(numbers.mean().item()) < 0.03 and abs(numbers.std().item() - 1) < 0.03
    own = torch.Generator().manual_seed(3)
    assert torch.equal(torch.rand(4, generator=own), first[0])


def test_attributes_that_compare_equal_are_told_apart() -> None:
    """0.0 == -0.0 and 1 == True as dictionary keys, but they mean other computations."""
    from graphc.ir.registry import unregister
    from graphc.ops.elementwise import elementwise
    from graphc.ops.kinds.op import FLOATS

    copysign = elementwise(
        "copysign_of_attribute",
        lambda s, x, *, by: s.mul(x, s.constant(by, x)),
        dtypes=FLOATS,
        samples=lambda m: [m(m.normal(3), by=1.0)],
    )
    try:
        one = torch.tensor(1.0)
        signs = [np.signbit(copysign(one, by=by).numpy()) for by in (0.0, -0.0)]
        assert signs == [False, True]
    finally:
        unregister("copysign_of_attribute")

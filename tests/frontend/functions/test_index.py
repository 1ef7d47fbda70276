"""Indexing and index assignment against NumPy where its rules are PyTorch's, eager and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
from graphc.errors import TraceError

ARRAY = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)

# Indices NumPy and PyTorch take alike: no number beside an index array apart from it.
INDICES: dict[str, Any] = {
    "number": 1,
    "numbers": (0, -1),
    "steps": (slice(None), slice(0, 3, 2), slice(1, None)),
    "none": (None, 0, None),
    "ellipsis": (..., -1),
    "list": [1, 0, 1],
    "negative list": [-1, 0],
    "list behind": (slice(None), [2, 0, -1]),
    "two lists": ([0, 1], [2, 0]),
    "lists that broadcast": (np.array([[0], [1]]), np.array([2, 0, 1])),
    "lists apart": ([0, 1], slice(None), [1, 2]),
    "list and none": (None, [1, 0]),
    "nothing": (slice(2, 2),),
    "empty list": (slice(None), []),
}
MASKS: dict[str, Any] = {
    "mask": ARRAY > 11,
    "mask of rows": np.array([False, True]),
    "mask behind": (slice(None), np.array([True, False, True])),
    "mask of all": ARRAY >= 0,
    "mask of nothing": ARRAY < 0,
}


def native(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(native(item) for item in index)
    return torch.tensor(index) if isinstance(index, np.ndarray) else index


def assigned(index: Any, value: Any) -> Any:
    def run(x: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        y = x * 1
        y[native(index)] = values[0] if values else value
        return y

    return run


@pytest.mark.parametrize("name", [*INDICES, *MASKS])
def test_reading(name: str) -> None:
    index = (INDICES | MASKS)[name]
    expected = ARRAY[index]
    actual = torch.tensor(ARRAY)[native(index)]
    np.testing.assert_array_equal(actual.numpy(), expected)
    if name in INDICES:
        compiled = torch.compile(lambda x: x[native(index)])(torch.tensor(ARRAY))
        np.testing.assert_array_equal(compiled.numpy(), expected)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", [*INDICES, *MASKS])
def test_writing(name: str) -> None:
    """A number, a row, and a value for each place: plainly, on the tape, compiled."""
    index = (INDICES | MASKS)[name]
    shape = ARRAY[index].shape
    whole = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    row = whole[0] if len(whole) else whole
    for value in (np.float32(2.5), row, whole, whole[None]):
        expected = ARRAY.copy()
        expected[index] = value[0] if np.ndim(value) > whole.ndim else value
        tensor = torch.tensor(value)
        plain = torch.tensor(ARRAY)
        plain[native(index)] = tensor
        taped = assigned(index, None)(torch.tensor(ARRAY, requires_grad=True), tensor)
        compiled = torch.compile(assigned(index, None))(torch.tensor(ARRAY), tensor)
        for actual in (plain, taped.detach(), compiled):
            np.testing.assert_array_equal(actual.numpy(), expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["steps", "none", "lists apart", "mask", "mask behind", "list"])
def test_gradients_of_what_is_read_and_written(name: str) -> None:
    index = native((INDICES | MASKS)[name])
    wide = torch.tensor(ARRAY).double()
    x = (wide * 0.1).requires_grad_()
    drawn = np.random.default_rng(1).standard_normal(wide[index].shape)
    v = torch.tensor(drawn, requires_grad=True)

    def write(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        y = x * x
        y[index] = v * v
        return y * y

    assert torch.autograd.gradcheck(write, (x, v))
    assert torch.autograd.gradcheck(lambda x: x[index] * x[index], (x,))


def test_the_last_value_stays_where_positions_repeat() -> None:
    """In row-major order of the index, also for index arrays that do not lie so."""
    rows = np.array([[0, 1, 0], [1, 0, 0]])
    values = np.arange(6.0).reshape(2, 3)

    def run(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        y = x * 1
        y[torch.tensor(np.asfortranarray(rows)), torch.tensor([0])] = v
        return y

    expected = [[5.0], [3.0]]
    for argument in (torch.zeros(2, 1), torch.zeros(2, 1, requires_grad=True)):
        assert run(argument, torch.tensor(values).float()).tolist() == expected
    assert torch.compile(run)(torch.zeros(2, 1), torch.tensor(values).float()).tolist() == expected
    v = torch.tensor(values).float().requires_grad_()
    run(torch.zeros(2, 1), v).sum().backward()
    assert v.grad.tolist() == [[0, 0, 0], [1, 0, 1]]


def test_adding_where_positions_repeat() -> None:
    x = torch.zeros(3)
    x[[0, 0, 1]] += 1
    assert x.tolist() == [1, 1, 0]
    index = (torch.tensor([0, 0, 1]),)
    assert x.index_put(index, torch.ones(3), accumulate=True).tolist() == [3, 2, 0]
    compiled = torch.compile(lambda x: x.index_put_(index, torch.tensor(2.0), True))
    assert compiled(torch.zeros(3)).tolist() == [4, 2, 0]


@pytest.mark.parametrize("values", [[5.0], [1.0, 2, 3], [[4.0], [7]], [[1.0, 2, 3], [4, 5, 6]]])
def test_adding_where_a_mask_holds(values: Any) -> None:
    x, mask = np.arange(9.0).reshape(3, 3), np.array([True, False, True])
    want = x.copy()
    want[mask] += values

    def add(x: Any, mask: Any, v: Any) -> Any:
        return x.index_put((mask,), v, accumulate=True)

    operands = torch.tensor(x), torch.tensor(mask), torch.tensor(values).double()
    for function in (add, torch.compile(add)):
        assert np.array_equal(function(*operands).numpy(), want)
    x_bool, more = torch.tensor([False, True, False]), torch.tensor(True)
    for function in (add, torch.compile(add)):
        assert function(x_bool, operands[1], more).tolist() == [True, True, True]


def test_views_share_memory_and_copies_do_not() -> None:
    x = torch.zeros(2, 3)
    x[0][1] = 5
    x[:, 2:].fill_(7)
    x[[0]].fill_(9)
    x[...][1, 0] = 3
    assert x.tolist() == [[0, 5, 7], [3, 0, 7]] and x._version == 3


def test_a_position_known_when_the_graph_runs() -> None:
    """A 0-d tensor counts as a number, also traced."""

    def run(x: torch.Tensor, i: torch.Tensor) -> Any:
        y = x * 1
        y[i] = 5
        y[0, :, i] += x[0, :, 0]
        return x[i], x[i, :, [1, 2]], x[0, i], y

    x, i = torch.tensor(ARRAY), torch.tensor(-1)
    eager, compiled = run(x, i), torch.compile(run)(x, i)
    assert eager[1].shape == (3, 2)
    for a, b in zip(eager, compiled, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_a_traced_mask_takes_one_value_per_element() -> None:
    def run(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        y = x * 1
        y[x > 20] = v
        return y

    compiled = torch.compile(run, fullgraph=True)
    v = torch.tensor([1.0, 2.0, 3.0])
    assert compiled(torch.tensor(ARRAY), v)[1, 2].tolist() == [20, 1, 2, 3]
    with pytest.raises(RuntimeError, match=r"shape mismatch: value tensor of shape \[3\]"):
        compiled(torch.tensor(ARRAY + 1), v)
    with pytest.raises(TraceError, match="mask"):
        torch.compile(lambda x: x[x > 3], fullgraph=True)(torch.tensor(ARRAY))


def test_an_index_out_of_range_leaves_the_tensor_as_it_was() -> None:
    x = torch.zeros(3)
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension 0 with size 3"):
        x[[0, 3]] = 1
    with pytest.raises(IndexError, match="index -4 is out of bounds"):
        _ = x[torch.tensor([-4])]
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x[[0, 1]] = torch.ones(3)
    state = torch.zeros(3)

    def write(i: torch.Tensor) -> None:
        state[i] = 1

    with pytest.raises(IndexError, match=r"index \S+ is out of bounds for dimension 0 with size 3"):
        torch.compile(write)(torch.tensor([1, 7]))
    assert x.tolist() == state.tolist() == [0, 0, 0]


def test_values_are_cast_as_pytorch_does() -> None:
    x = torch.zeros(3, dtype=torch.int64)
    x[0] = torch.tensor(2.9)
    x[1] = True
    x[[2]] = 1.5
    assert x.tolist() == [2, 1, 1]
    with pytest.raises(RuntimeError, match="source and destination dtypes match, got Long"):
        x[[0]] = torch.tensor([1.5])
    with pytest.raises(TypeError, match=r"can't assign a list to a torch\.LongTensor"):
        x[0] = [1]


def test_deprecated_forms_warn() -> None:
    x = torch.tensor(ARRAY)
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[[0, 1], [1, 2]]].shape == (2, 4)
    with pytest.warns(UserWarning, match=r"torch\.uint8 is now deprecated"):
        assert x[torch.tensor([0, 1], dtype=torch.uint8)].tolist() == ARRAY[1:].tolist()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("way", ["rows", "scatter"])
def test_gradients_of_what_is_put_at_indices_in_storage_types(dtype: str, way: str) -> None:
    y = torch.zeros(3, 3, dtype=getattr(torch, dtype))
    z = torch.ones(2, 3, dtype=getattr(torch, dtype), requires_grad=True)
    if way == "rows":
        y[[0, 0]] = z
        expected = [[0.0] * 3, [1.0] * 3]
    else:
        y = y.scatter(0, torch.tensor([[0, 1, 2], [1, 1, 2]]), z)
        expected = [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    y.sum().backward()
    assert z.grad.dtype == z.dtype and z.grad.tolist() == expected

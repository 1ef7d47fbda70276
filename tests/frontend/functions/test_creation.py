"""Tensors from data, filled ones, numbers in a row; eager and inside a trace. Expected values and
errors are PyTorch 2.13's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import frontend as torch
from graphc.errors import TraceError

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.uint8, torch.int8,
          torch.int16, torch.int32, torch.int64, torch.bool]  # fmt: skip


# -- from data -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "dtype", "expected"),
    [
        (3, torch.int64, 3), (2.5, torch.float32, 2.5), (True, torch.bool, True),
        ([True, 2], torch.int64, [1, 2]), ([True, 1.5], torch.float32, [1, 1.5]),
        ((), torch.float32, []), ([[], []], torch.float32, [[], []]),
        (range(3), torch.int64, [0, 1, 2]),
        ((1.5, 2.5), torch.float32, [1.5, 2.5]), ((True, False), torch.bool, [True, False]),
        ([np.float32(1), np.float32(2)], torch.float32, [1, 2]), ([1e300], torch.float32, [np.inf]),
        ([np.float64(1)], torch.float64, [1]), ([np.int8(1), 2.5], torch.float32, [1, 2.5]),
        (np.uint8(7), torch.uint8, 7), (np.array([1, 2], np.int16), torch.int16, [1, 2]),
        ([np.array([1.0, 2.0]), [3, 4]], torch.float64, [[1, 2], [3, 4]]),
        ([torch.tensor(1.5), 2], torch.float32, [1.5, 2]),
        ([torch.tensor(1, dtype=torch.int8)], torch.int8, [1]),
        (bytearray(b"ab"), torch.int64, [97, 98]),
    ],
)  # fmt: skip
def test_the_dtype_follows_from_all_elements(data: Any, dtype: Any, expected: Any) -> None:
    actual = torch.tensor(data)
    assert actual.dtype is dtype and actual.tolist() == expected


@pytest.mark.parametrize(
    ("data", "dtype", "error", "message"),
    [
        ([[1, 2], [3]], None, ValueError, r"expected sequence of length 2 at dim 1 \(got 1\)"),
        ([[[1], [2]], [[3]]], None, ValueError, r"length 2 at dim 1 \(got 1\)"),
        ([[1], 2], None, TypeError, "not a sequence"), ([1, [2]], None, TypeError, "'list' object"),
        ("a", None, TypeError, "invalid data type 'str'"),
        (["a"], None, ValueError, "too many dimensions 'str'"),
        (None, None, RuntimeError, "Could not infer dtype of NoneType"),
        ({1: 2}, None, RuntimeError, "Could not infer dtype of dict"),
        (1j, torch.float32, TypeError, "must be real number, not complex"),
        ([2**63, 1], None, ValueError, "Overflow when unpacking long long"),
        (2**63, None, ValueError, "Overflow when unpacking long long"),
        (256, torch.uint8, RuntimeError, "type uint8 without overflow"),
        ([300], torch.int8, RuntimeError, "type int8 without overflow"),
        ([float("nan")], torch.int64, RuntimeError, "type int64 without overflow"),
        ([-1.5], torch.uint8, RuntimeError, "type uint8 without overflow"),
        (np.array(["a"]), None, TypeError, r"can't convert np\.ndarray of type numpy\.str_"),
        (np.array([1], "M8[Y]"), None, TypeError, "only supported types are: float32, .*uint8"),
        (np.array([1.0], ">f8"), None, ValueError, "byte order"),
        ([torch.ones(2)] * 2, None, TypeError, r"only one element tensors.*torch\.stack"),
    ],
)  # fmt: skip
def test_what_is_no_tensor(data: Any, dtype: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        torch.tensor(data, dtype=dtype)


def test_numbers_are_brought_into_the_dtype() -> None:
    assert torch.tensor([-1], dtype=torch.uint8).tolist() == [255]
    assert torch.tensor([1.7, -1.7], dtype=torch.int32).tolist() == [1, -1]
    assert torch.tensor([70000, 1e40], dtype=torch.half).tolist() == [np.inf, np.inf]
    assert torch.tensor([0.0, 2.5], dtype=torch.bool).tolist() == [False, True]
    assert torch.tensor(0.1, dtype=torch.bfloat16).item() == 0.10009765625


def test_copies_of_tensors_are_off_the_tape_and_warned_of() -> None:
    x = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        copied = torch.tensor(x, dtype=torch.float64)
    assert not copied.requires_grad and copied.dtype is torch.float64
    with pytest.warns(UserWarning, match=r"rather than tensor\.new_tensor"):
        assert x.new_tensor(x).data_ptr() != x.data_ptr()


def test_memory_is_shared_where_it_can_be() -> None:
    array, x = np.zeros(3, np.float32), torch.ones(2, requires_grad=True)
    for tensor in (
        torch.from_numpy(array), torch.as_tensor(array), torch.asarray(array),
        torch.from_dlpack(array), torch.frombuffer(array, dtype=torch.float32),
    ):  # fmt: skip
        tensor += 1
    assert array.tolist() == [5, 5, 5]
    read = torch.frombuffer(bytearray(10), dtype=torch.uint8, offset=4)
    read.view(2, 3)[1] = 1  # a view, though the memory is no array's
    assert read.tolist() == [0, 0, 0, 1, 1, 1]
    assert torch.as_tensor(x) is torch.asarray(x) is x
    assert torch.asarray(x, requires_grad=False).data_ptr() == x.data_ptr()
    assert torch.as_tensor(x, dtype=torch.float64).grad_fn is not None
    assert torch.asarray(array, copy=True).data_ptr() != array.ctypes.data
    with pytest.raises(ValueError, match="can't alias arbitrary sequence"):
        torch.asarray([1], copy=False)
    with pytest.raises(ValueError, match="dtype 'Float' into dtype 'Long'"):
        torch.asarray(array, dtype=torch.int64, copy=False)
    with pytest.raises(TypeError, match=r"expected np\.ndarray \(got numpy\.float64\)"):
        torch.from_numpy(np.float64(1))


# -- filled, in a row ----------------------------------------------------------------------------


def filled(dtype: Any) -> list[Any]:
    like = torch.zeros(2, 1, dtype=dtype)
    return [
        torch.zeros(2, dtype=dtype), torch.ones((2, 1), dtype=dtype),
        torch.full((2,), 3, dtype=dtype), torch.empty(0, 3, dtype=dtype), torch.zeros_like(like),
        torch.ones_like(like), torch.full_like(like, 1), like.new_ones(2), like.new_full((1,), 1),
        like.new_zeros(2, 2), like.new_empty((1,)), torch.eye(2, 3, dtype=dtype),
        torch.arange(4, dtype=dtype), torch.arange(1, 7, 2, dtype=dtype),
        torch.linspace(0, 8, 3, dtype=dtype), torch.logspace(0, 2, 3, base=2, dtype=dtype),
        torch.tensor([0, 1], dtype=dtype), torch.scalar_tensor(1, dtype=dtype), like.new([1]),
    ]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", DTYPES)
def test_creation_in_every_dtype_eager_and_traced(dtype: Any) -> None:
    eager, traced = filled(dtype), torch.compile(lambda: filled(dtype))()
    for x, y in zip(eager, traced, strict=True):
        assert x.dtype is y.dtype is dtype
        assert x.shape == y.shape and x.tolist() == y.tolist()


def test_signs_of_zero_and_special_numbers_are_kept() -> None:
    for make in (lambda: torch.full((2,), -0.0), torch.compile(lambda: torch.full((2,), -0.0))):
        assert np.signbit(make().numpy()).all()
    assert torch.full((1,), torch.inf, dtype=torch.half).tolist() == [np.inf]
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.full((1,), torch.nan, dtype=torch.uint8)


def test_ranges() -> None:
    assert torch.arange(end=3).tolist() == [0, 1, 2]
    assert torch.arange(1.0, 0.0, -0.25).tolist() == [1, 0.75, 0.5, 0.25]
    assert torch.arange(0, 5, 1.5, dtype=torch.int64).tolist() == [0, 1, 2, 3, 4]
    assert torch.arange(torch.tensor(2.5)).tolist() == [0, 1, 2]
    assert torch.linspace(0, 1, 1).tolist() == [0] and torch.linspace(0, 1, 0).tolist() == []
    assert torch.linspace(3, -10, 7, dtype=torch.int32).tolist() == [3, 0, -1, -3, -5, -7, -10]
    assert torch.eye(1, 2).tolist() == [[1, 0]]
    with pytest.warns(UserWarning, match=r"torch\.range is deprecated"):
        assert torch.range(1, 2, 0.5).tolist() == [1, 1.5, 2]
    for wrong, message in (
        (lambda: torch.arange(0, 1, 0), "step must be nonzero"),
        (lambda: torch.arange(1, 0), "inconsistent with step sign"),
        (lambda: torch.arange(torch.inf), "unsupported range: 0 -> inf"),
        (lambda: torch.linspace(0, 1, -1), "number of steps must be non-negative"),
        (lambda: torch.eye(-1), "n must be greater or equal to 0"),
    ):
        with pytest.raises(RuntimeError, match=message):
            wrong()
    for bad, message in (
        (lambda: torch.arange(), 'missing 1 required positional arguments: "end"'),
        (lambda: torch.arange(1, 2, 3, 4), "got 4 positional arguments"),
        (lambda: torch.arange("a"), "argument 'end' must be Number, not str"),
        (lambda: torch.linspace(0, 1, 2.5), "argument 'steps' must be int, not float"),
    ):
        with pytest.raises(TypeError, match=message):
            bad()


def test_out() -> None:
    out = torch.ones(2, dtype=torch.int64)
    assert torch.full((2,), 1.5, out=out) is out and out.tolist() == [1, 1]
    empty = torch.empty(0)
    torch.arange(3, out=empty)
    assert empty.tolist() == [0, 1, 2] and empty.dtype is torch.float32
    with pytest.raises(RuntimeError, match="dtype Long does not match dtype of out parameter"):
        torch.zeros(2, dtype=torch.int64, out=torch.ones(2))
    with pytest.raises(RuntimeError, match="an output with shape"):
        torch.zeros(2, out=torch.ones(4)[:3])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.zeros(2.5), r"zeros\(\): argument 'size' must be tuple of ints, not float"),
        (lambda: torch.zeros(True), "not bool"),
        (lambda: torch.zeros("a"), "not str"),
        (lambda: torch.zeros(), 'missing 1 required positional arguments: "size"'),
        (lambda: torch.zeros(2, size=(2,)), "multiple values for argument 'size'"),
        (lambda: torch.full(2, 3), r"full\(\): argument 'size' .* must be tuple of ints, not int"),
        (lambda: torch.full((2,), "a"), "'fill_value' .* must be Number, not str"),
        (lambda: torch.full((2,), torch.ones(2)), "must be Number, not Tensor"),
        (lambda: torch.zeros_like([1]), "argument 'input' .* must be Tensor, not list"),
    ],
)
def test_wrong_arguments(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_what_cannot_be_made() -> None:
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        torch.zeros(2, -1)
    with pytest.raises(RuntimeError, match="can require gradients"):
        torch.zeros(2, dtype=torch.uint8, requires_grad=True)
    with pytest.raises(RuntimeError, match="accelerator"):
        torch.zeros(2, pin_memory=True)
    with pytest.raises(NotImplementedError, match=r"the only layout is torch\.strided"):
        torch.zeros(2, layout="sparse")
    assert torch.ones(2, dtype=torch.half, requires_grad=True).requires_grad
    assert torch.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    with pytest.raises(RuntimeError, match="mismatch in length"):
        torch.empty_strided((2,), (1, 2))


def test_traced_values_cannot_become_shapes_or_numbers_but_can_be_copied() -> None:
    def copies(x: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.tensor(x), torch.full((2,), x[0]), x.new_full((1,), x[1])

    x = torch.tensor([1.5, 2.5])
    result = torch.compile(copies, fullgraph=True)(x)
    assert [each.tolist() for each in result] == [[1.5, 2.5], [1.5, 1.5], [2.5]]
    with pytest.raises(TraceError, match="tensor"):
        torch.compile(lambda x: torch.tensor([x[0], 1.0]), fullgraph=True)(x)
    with pytest.raises(TraceError, match=r"int\(\) needs the value of a tensor"):
        torch.compile(lambda x: torch.zeros(x.sum().int()), fullgraph=True)(x)


# -- the way back to Python -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_in_python(dtype: Any) -> None:
    x = torch.tensor([[0, 1], [1, 0]]).to(dtype)
    assert x.tolist() == [[0, 1], [1, 0]] and x.numpy().dtype == dtype.numpy
    assert x.numpy().ctypes.data == x.data_ptr()
    assert type(x[0, 1].item()) is (float if dtype.is_floating_point else
                                    bool if dtype is torch.bool else int)  # fmt: skip
    assert np.asarray(x, np.float32).tolist() == x.tolist()
    assert torch.from_numpy(x.numpy()).dtype is dtype


def test_numpy_functions_and_operands() -> None:
    x = torch.tensor([1.0, 4.0])
    assert isinstance(np.sqrt(x), torch.Tensor) and np.sqrt(x).tolist() == [1, 2]
    assert (np.float64(2) * x).dtype is (x * np.float64(2)).dtype is torch.float32
    assert (x + np.ones(2)).dtype is torch.float64
    assert (np.int8(100) + torch.ones(1, dtype=torch.int8)).tolist() == [101]
    with pytest.raises(ValueError, match="Unable to avoid copy"):
        np.array(x, np.float64, copy=False)
    assert 4.0 in x and 3.0 not in x and [0, 5][torch.tensor(1, dtype=torch.uint8)] == 5
    with pytest.raises(RuntimeError, match="only supports Tensor or scalar"):
        "a" in x  # noqa: B015
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{x:.2f}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_range_up_to_no_whole_number_is_traced(dtype: Any) -> None:
    compiled = torch.compile(lambda: torch.arange(3.1, dtype=dtype))
    assert compiled().tolist() == torch.arange(3.1, dtype=dtype).tolist() == [0, 1, 2, 3]

"""PyTorch's type promotion; expected dtypes are those PyTorch 2.13 gives."""

from __future__ import annotations

import pytest

import frontend as torch

T = torch.tensor
F32, F64, I32, I64, BOOL = torch.float32, torch.float64, torch.int32, torch.int64, torch.bool


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (T([1.0]), 2, F32),
        (T([1.0]), 2.5, F32),
        (T([1.0]), T(2.5, dtype=F64), F32),  # 0-d yields within a category
        (T([1.0]), T([2.0], dtype=F64), F64),
        (T([1]), 2.5, F32),  # a higher category takes the default dtype
        (T([1]), T(2.5), F32),
        (T([1]), T(2.5, dtype=F64), F64),
        (T([1], dtype=I32), 3, I32),
        (T([1], dtype=I32), T(3), I32),
        (T([1], dtype=I32), T([3]), I64),
        (T([True]), 1, I64),
        (T([True]), T([1], dtype=I32), I32),
        (T([True]), 1.5, F32),
        (T([True]), True, BOOL),
        (T(1), T([1.0]), F32),
        (T(2.0, dtype=F64), 1, F64),
        (T(1, dtype=I32), T(1), I64),
    ],
)
def test_result_dtype(left: torch.Tensor, right: object, expected: torch.dtype) -> None:
    assert torch.add(left, right).dtype is expected
    assert torch.result_type(left, right) is expected
    assert torch.mul(left, right).dtype is expected


def test_division_of_integers_is_float() -> None:
    assert (T([3]) / 2).tolist() == [1.5]
    assert (T([True]) / T([True])).dtype is F32
    assert (T([7, -7]) // 2).tolist() == [3, -4]
    assert (T([7, -7]) % 4).tolist() == [3, 1]
    assert torch.div(T([7, -7]), 4, rounding_mode="trunc").tolist() == [1, -1]
    assert torch.div(T([7.0, -7.0]), 4, rounding_mode="floor").tolist() == [1, -2]


def test_powers() -> None:
    assert (T([1, 2, 3]) ** 2).tolist() == [1, 4, 9]
    assert (T([1, 2, 3]) ** 2).dtype is I64
    assert (T([1, 2, 3]) ** 2.0).dtype is F32
    assert (T([4.0]) ** 0.5).tolist() == [2]
    assert (2 ** T([3.0])).tolist() == [8]
    with pytest.raises(RuntimeError, match="Integers to negative integer powers"):
        T([2]) ** -1


def test_comparisons_promote_too() -> None:
    assert (T([1, 2]) < 1.5).tolist() == [True, False]
    assert (T([1.5]) == T([1])).tolist() == [False]
    assert (T([True, False]) == True).tolist() == [True, False]  # noqa: E712
    assert (T([True]) > T([False])).tolist() == [True]


def test_default_dtype_is_what_numbers_become() -> None:
    torch.set_default_dtype(F64)
    try:
        assert T(1.5).dtype is F64 and (T([1]) / 2).dtype is F64 and torch.zeros(1).dtype is F64
    finally:
        torch.set_default_dtype(F32)
    with pytest.raises(TypeError, match="only floating-point types"):
        torch.set_default_dtype(I64)


def test_numbers_keep_the_sign_of_zero() -> None:
    assert (T([1.0]) * 0.0).tolist() == [0.0]
    assert str((T([1.0]) * -0.0).item()) == "-0.0"
    assert str((T([1.0]) * 0.0).item()) == "0.0"


def test_wrong_operands() -> None:
    with pytest.raises(TypeError, match="expected a Tensor or a number, got str"):
        T([1.0]) + "a"
    assert (T([1.0]) == "a") is False

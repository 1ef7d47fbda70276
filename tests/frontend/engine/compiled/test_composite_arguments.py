"""Tensors made of tensors, as arguments and results of compiled functions: taken apart by
`__tensor_flatten__`, put together by `__tensor_unflatten__`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch


class Scaled(torch.Tensor):
    """`numbers * scale`, of which `numbers` is kept as it was given; `unit` is a word."""

    numbers: torch.Tensor
    scale: torch.Tensor
    unit: str

    @staticmethod
    def of(numbers: torch.Tensor, scale: torch.Tensor, unit: str = "m") -> Any:
        self = torch.Tensor._make_subclass(Scaled, numbers)
        self.numbers, self.scale, self.unit = numbers, scale, unit
        return self

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["numbers", "scale"], self.unit

    @staticmethod
    def __tensor_unflatten__(parts: Any, context: Any, size: Any, stride: Any) -> Any:
        assert size is None and stride is None
        return Scaled.of(parts["numbers"], parts["scale"], context)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.mul:
            left, right = args
            return Scaled.of(left.numbers, left.scale * right, left.unit)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    def whole(self) -> torch.Tensor:
        return self.numbers * self.scale


class Named(Scaled):
    """One that says a wrong name."""

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["numbers", "unit"], None


def drawn(rows: int = 3) -> Any:
    return Scaled.of(torch.arange(rows * 2.0).reshape(rows, 2), torch.tensor(3.0))


def test_parts_are_arguments_and_results() -> None:
    runs = []

    @torch.compile(fullgraph=True, dynamic=False)
    def function(x: Any, by: torch.Tensor) -> tuple[Any, torch.Tensor]:
        runs.append(1)
        return x * by, x.whole()

    for shift in (0.0, 1.0):
        x = drawn()
        x.numbers.add_(shift)
        scaled, whole = function(x, torch.tensor(2.0))
        assert type(scaled) is Scaled and scaled.unit == "m"
        expected = 3.0 * (np.arange(6.0).reshape(3, 2) + shift)
        np.testing.assert_array_equal(whole.numpy(), expected)
        np.testing.assert_array_equal(scaled.whole().numpy(), 2 * expected)
    assert len(runs) == 1
    other = Scaled.of(x.numbers, x.scale, "km")
    assert function(other, torch.tensor(2.0))[0].unit == "km" and len(runs) == 2


def test_gradients_and_updates_of_parts() -> None:
    @torch.compile(fullgraph=True)
    def function(x: Any) -> torch.Tensor:
        with torch.no_grad():
            x.numbers.mul_(2)
        return x.whole().square().sum()

    x = drawn()
    x.scale.requires_grad_()
    function(x).backward()
    numbers = 2 * np.arange(6.0)
    np.testing.assert_array_equal(x.numbers.numpy().reshape(-1), numbers)
    assert x.scale.grad is not None
    np.testing.assert_allclose(x.scale.grad.numpy(), 6 * (numbers**2).sum())


def test_sizes_of_parts_stay_open() -> None:
    function = torch.compile(lambda x: x.whole().sum(), fullgraph=True, dynamic=True)
    for rows in (3, 4, 7):
        assert float(function(drawn(rows))) == 3 * sum(range(2 * rows))
    assert len({id(each.program) for each in function.specializations}) <= 2


def test_composites_within_composites() -> None:
    inner = drawn()
    outer = Scaled.of(inner, torch.tensor(2.0), "outer")

    @torch.compile(fullgraph=True)
    def function(x: Any) -> Any:
        return [x * torch.tensor(5.0), x.numbers.whole()]

    result, whole = function(outer)
    assert type(result.numbers) is Scaled and (result.unit, result.numbers.unit) == ("outer", "m")
    assert float(result.scale) == 10 and float(whole.sum()) == 45


def test_a_part_that_is_no_tensor_is_named() -> None:
    x = torch.Tensor._make_subclass(Named, torch.empty(3, 2, device="meta"))
    x.numbers, x.unit = torch.ones(3, 2), "m"
    with pytest.raises(TypeError, match="names 'unit', which is no tensor but a str"):
        torch.compile(lambda x: x.numbers)(x)


def test_what_is_read_off_an_argument_is_its_part() -> None:
    """A list of one tensor is no tensor, also to the cache of the last call."""
    function = torch.compile(lambda x: x[0] * 2)
    x = torch.tensor([1.0, 2.0])
    for _ in range(2):
        np.testing.assert_array_equal(function([x]).numpy(), [2, 4])
    assert float(function(x)) == 2

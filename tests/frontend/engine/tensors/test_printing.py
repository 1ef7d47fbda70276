"""How tensors print; expected texts are PyTorch 2.13's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import frontend as torch

T = torch.tensor


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    yield
    torch.set_printoptions(profile="default")


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (T(2.5), "tensor(2.5000)"), (T(3), "tensor(3)"), (T(True), "tensor(True)"),
        (T([1.0, -2.5]), "tensor([ 1.0000, -2.5000])"), (T([1.0, 20.0]), "tensor([ 1., 20.])"),
        (T([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"), (T([0.0, -0.0]), "tensor([0., -0.])"),
        (T([np.nan, np.inf, 1.5]), "tensor([   nan,    inf, 1.5000])"), (T([]), "tensor([])"),
        (T([np.nan, 1.0]), "tensor([nan, 1.])"),
        (T([1e9, 1.0]), "tensor([1.0000e+09, 1.0000e+00])"),
        (torch.zeros(0, 2), "tensor([], size=(0, 2))"), (T([0.1]).half(),
         "tensor([0.1000], dtype=torch.float16)"),
        (T([0.1]).bfloat16(), "tensor([0.1001], dtype=torch.bfloat16)"),
        (T([7]).byte(), "tensor([7], dtype=torch.uint8)"),
        (torch.zeros(0).long(), "tensor([], dtype=torch.int64)"),
        (T([True, False]), "tensor([ True, False])"), (T([[1, -20]]), "tensor([[  1, -20]])"),
        (torch.ones(2, requires_grad=True), "tensor([1., 1.], requires_grad=True)"),
        (torch.ones(2, requires_grad=True) + 1, "tensor([2., 2.], grad_fn=<AddBackward0>)"),
        (torch.nn.Parameter(torch.ones(1)),
         "Parameter containing:\ntensor([1.], requires_grad=True)"),
    ],
)  # fmt: skip
def test_texts(tensor: torch.Tensor, text: str) -> None:
    assert repr(tensor) == str(tensor) == text
    assert f"{tensor}" == (text if tensor.dim() else str(tensor.item()))


def test_long_tensors_are_summarised() -> None:
    assert str(torch.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    assert str(torch.zeros(1, 2000)) == "tensor([[0., 0., 0.,  ..., 0., 0., 0.]])"
    lines = str(torch.zeros(1001, 1)).splitlines()
    assert lines[3] == "        ...," and len(lines) == 7


def test_lines_are_broken() -> None:
    lines = str(torch.arange(40)).splitlines()
    assert lines[0].startswith("tensor([ 0,  1,") and lines[0].endswith(" 16, 17,")
    assert lines[1].startswith("        18, 19") and lines[2] == "        36, 37, 38, 39])"
    long = str(torch.ones(20, requires_grad=True))
    assert long.splitlines()[1] == "        1., 1.], requires_grad=True)"


def test_options() -> None:
    x = T([1.23456, 100.0])
    torch.set_printoptions(precision=2)
    assert str(x) == "tensor([  1.23, 100.00])"
    torch.set_printoptions(sci_mode=True)
    assert str(x) == "tensor([1.23e+00, 1.00e+02])"
    torch.set_printoptions(threshold=3, edgeitems=1)
    assert str(torch.arange(5)) == "tensor([0,  ..., 4])"
    torch.set_printoptions(profile="full")
    assert "..." not in str(torch.arange(2000))
    with pytest.raises(ValueError, match="profile is one of"):
        torch.set_printoptions(profile="long")


class Marked(torch.Tensor):
    pass


def test_subclasses_print_their_name() -> None:
    assert repr(Marked([1.0])) == "Marked([1.])"

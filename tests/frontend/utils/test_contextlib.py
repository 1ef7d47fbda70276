"""`torch.utils._contextlib`, and small names that tensordict asks for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

import frontend as torch
from frontend import nn
from frontend.nn.utils._named_member_accessor import swap_tensor
from frontend.utils._contextlib import _DecoratorContextManager, context_decorator
from frontend.utils._pytree import is_structseq_instance


class Noted(_DecoratorContextManager):
    def __init__(self, notes: list[str]):
        self.notes = notes

    def __enter__(self) -> None:
        self.notes.append("in")

    def __exit__(self, *_: Any) -> None:
        self.notes.append("out")

    def clone(self) -> Noted:
        return Noted(self.notes)


def test_functions_run_within() -> None:
    notes: list[str] = []

    @Noted(notes)
    def double(x: int) -> int:
        """Twice."""
        notes.append("run")
        return 2 * x

    assert double(3) == 6 and double.__doc__ == "Twice."
    assert notes == ["in", "run", "out"]
    with pytest.raises(RuntimeError, match=r"decorate Noted\.__init__"):
        context_decorator(Noted(notes), Noted)


def test_generators_are_within_while_they_run() -> None:
    notes: list[str] = []

    @Noted(notes)
    def count() -> Iterator[int]:
        try:
            told = yield 1
            notes.append(f"told {told}")
            yield 2
        except KeyError:
            notes.append("thrown")
            yield 3

    running: Any = count()
    assert next(running) == 1 and notes == ["in", "out"]
    assert running.send("b") == 2 and notes[2:] == ["in", "told b", "out"]
    assert running.throw(KeyError("x")) == 3 and notes[5:] == ["in", "thrown", "out"]
    assert list(count()) == [1, 2]
    running.close()


def test_a_tensor_in_the_place_of_another() -> None:
    net, other = nn.Linear(2, 2), torch.zeros(2)
    bias = net.bias
    assert swap_tensor(net, "bias", other) is bias and net.bias is other
    with pytest.raises(AttributeError, match="Linear has no attribute `b`"):
        swap_tensor(net, "b", other)
    with pytest.raises(KeyError, match="contain"):
        swap_tensor(net, "a.b", other)
    assert swap_tensor(net, "b", other, allow_missing=True) is None and net.b is other


def test_nodes_of_a_list_of_ones_own() -> None:
    class Own(list[Any]):
        pass

    tree = torch.utils._pytree
    tree.register_pytree_node(
        Own, tree._list_flatten, tree._list_unflatten,
        flatten_with_keys_fn=tree._list_flatten_with_keys,
    )  # fmt: skip
    leaves, spec = tree.tree_flatten({"a": Own([1, 2])})
    assert leaves == [1, 2] and tree.tree_unflatten([3, 4], spec) == {"a": [3, 4]}
    assert [tree.keystr(path) for path, _ in tree.tree_leaves_with_path(Own([1, 2]))] == [
        "[0]", "[1]",
    ]  # fmt: skip


def test_cs_tuples_with_names() -> None:
    assert is_structseq_instance(time.localtime())
    assert not is_structseq_instance((1, 2))
    assert torch._utils._get_device_module("cpu") is torch.cpu
    assert torch.get_device_module() is torch.get_device_module(torch.device("cpu")) is torch.cpu
    assert torch.get_device_module("cuda:0") is torch.cuda
    with pytest.raises(RuntimeError, match="Device 'tpu' does not have"):
        torch._utils._get_device_module("tpu")

"""Module: registration, walking, changing, state dicts, text."""

from __future__ import annotations

import copy
import re
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2, bias=False)
        self.register_buffer("seen", torch.zeros(2))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)
        self.note = "plain"

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x).relu())


def test_assignment_registers_by_type() -> None:
    net = Net()
    assert list(net._modules) == ["first", "second"]
    assert list(net.first._parameters) == ["weight", "bias"]
    assert list(net._buffers) == ["seen", "scratch"]
    assert net.note == "plain" and "note" in vars(net)
    net.items = [nn.Linear(1, 1)]
    assert "items" not in net._modules


def test_a_name_moves_between_registries() -> None:
    net = Net()
    net.first = nn.Parameter(torch.ones(2))
    assert "first" not in net._modules and net._parameters["first"] is net.first
    net.note = nn.ReLU()
    assert "note" not in vars(net) and isinstance(net.note, nn.ReLU)
    net.second = None
    assert net.second is None and "second" in net._modules
    net.seen = torch.ones(3)
    assert net._buffers["seen"].shape == (3,)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (nn.ReLU(), "cannot assign module before Module.__init__() call"),
        (nn.Parameter(torch.ones(1)), "cannot assign parameters before Module.__init__() call"),
    ],
)
def test_assignment_before_init(value: Any, message: str) -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.part = value

    with pytest.raises(AttributeError, match=re.escape(message)):
        Early()


def test_a_buffer_before_init() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.register_buffer("x", torch.ones(1))

    with pytest.raises(AttributeError, match="cannot assign buffer before Module"):
        Early()


def test_plain_attributes_before_init_stay() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.size = 3
            super().__init__()

    assert Early().size == 3


def test_wrong_assignments() -> None:
    net = Net()
    with pytest.raises(TypeError, match=r"cannot assign 'torch.FloatTensor' as parameter 'weight'"):
        net.first.weight = torch.ones(4, 3)
    with pytest.raises(TypeError, match="cannot assign 'int' as child module 'first'"):
        net.first = 3
    with pytest.raises(TypeError, match="cannot assign 'int' as buffer 'seen'"):
        net.seen = 3


@pytest.mark.parametrize("register", ["register_parameter", "register_buffer", "add_module"])
def test_registration_names(register: str) -> None:
    add = getattr(Net(), register)
    with pytest.raises(KeyError, match=r"can\\?'t contain"):
        add("a.b", None)
    with pytest.raises(KeyError, match=r"can\\?'t be empty string"):
        add("", None)
    with pytest.raises(KeyError, match="attribute 'training' already exists"):
        add("training", None)
    with pytest.raises(TypeError, match=r"name should be a string. Got int"):
        add(3, None)


def test_registration_types() -> None:
    net = Net()
    with pytest.raises(TypeError, match=r"torch.nn.Parameter or None required"):
        net.register_parameter("p", torch.ones(1))
    with pytest.raises(TypeError, match="torch Tensor or None required"):
        net.register_buffer("b", 3)
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        net.add_module("m", 3)


def test_delete_and_missing() -> None:
    net = Net()
    del net.second, net.scratch, net.note
    assert [name for name, _ in net.named_modules()] == ["", "first"]
    assert "scratch" not in net._non_persistent_buffers_set
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'second'"):
        _ = net.second
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'second'"):
        del net.second
    with pytest.raises(
        NotImplementedError, match='Module \\[Module\\] is missing the required "forw'
    ):
        nn.Module()(1)


def test_walking() -> None:
    net = Net()
    tied = nn.Sequential(net, net)
    names = ["first.weight", "first.bias", "second.weight"]
    assert [name for name, _ in net.named_parameters()] == names
    assert len(list(tied.parameters())) == 3
    assert [name for name, _ in tied.named_modules()] == ["", "0", "0.first", "0.second"]
    assert len(list(tied.named_parameters(remove_duplicate=False))) == 6
    assert len(list(tied.children())) == 1
    assert [name for name, _ in net.named_buffers()] == ["seen", "scratch"]
    assert [name for name, _ in net.named_parameters(prefix="net", recurse=False)] == []
    assert "first" in dir(net)
    visited: list[nn.Module] = []
    net.apply(visited.append)
    assert visited == [net.first, net.second, net]


def test_paths() -> None:
    net = nn.Sequential(Net())
    assert net.get_submodule("0.first") is net[0].first
    assert net.get_submodule("") is net
    assert net.get_parameter("0.first.bias") is net[0].first.bias
    assert net.get_buffer("0.seen") is net[0].seen
    with pytest.raises(AttributeError, match="Net has no attribute `third`"):
        net.get_submodule("0.third")
    with pytest.raises(AttributeError, match=r"`weight` is not an nn.Module"):
        net.get_submodule("0.first.weight")
    with pytest.raises(AttributeError, match=r"`first` is not an nn.Parameter"):
        net.get_parameter("0.first")
    with pytest.raises(AttributeError, match="`weight` is not a buffer"):
        net.get_buffer("0.first.weight")


def test_modes_and_gradients() -> None:
    net = Net()
    assert net.eval() is net and not net.first.training
    assert net.train().second.training
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        net.train("yes")
    net(torch.ones(2, 3)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad(set_to_none=False)
    assert all((p.grad == 0).all() for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())


def test_conversion_keeps_identity_and_converts_gradients() -> None:
    net = Net()
    net.register_buffer("count", torch.zeros(1, dtype=torch.int64))
    weight = net.first.weight
    net(torch.ones(2, 3)).sum().backward()
    assert net.double() is net
    assert net.first.weight is weight and weight.is_leaf and weight.requires_grad
    assert weight.dtype == weight.grad.dtype == net.seen.dtype == torch.float64
    assert net.count.dtype == torch.int64
    assert net.to(torch.float32).seen.dtype == torch.float32
    with pytest.raises(TypeError, match="only accepts floating point"):
        net.to(torch.int64)


def test_state_dict_refers_to_the_parameters() -> None:
    net = Net()
    state = net.state_dict()
    assert list(state) == ["seen", "first.weight", "first.bias", "second.weight"]
    assert isinstance(state, OrderedDict) and not state["first.bias"].requires_grad
    with torch.no_grad():
        net.first.bias.fill_(7)
    assert (state["first.bias"] == 7).all()
    assert net.state_dict(keep_vars=True)["first.bias"] is net.first.bias
    assert list(net.first.state_dict(prefix="p.")) == ["p.weight", "p.bias"]


def test_load_state_dict() -> None:
    source, target = Net(), Net()
    weight = target.first.weight
    assert repr(target.load_state_dict(source.state_dict())) == "<All keys matched successfully>"
    assert target.first.weight is weight
    np.testing.assert_array_equal(weight.detach(), source.first.weight.detach())
    partial = {"seen": torch.ones(2), "other": torch.ones(1)}
    result = target.load_state_dict(partial, strict=False)
    assert result.missing_keys == ["first.weight", "first.bias", "second.weight"]
    assert result.unexpected_keys == ["other"]
    assert (target.seen == 1).all()


def test_load_state_dict_reports_everything_and_changes_nothing() -> None:
    net = Net()
    before = copy.deepcopy(net.state_dict())
    bad = {"seen": torch.ones(2), "first.weight": torch.ones(2, 2), "first.bias": 3,
           "other": torch.ones(1)}  # fmt: skip
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(bad)
    assert str(caught.value).split("\n\t") == [
        "Error(s) in loading state_dict for Net:",
        'Missing key(s) in state_dict: "second.weight". ',
        'Unexpected key(s) in state_dict: "other". ',
        "size mismatch for first.weight: copying a param with shape torch.Size([2, 2]) from "
        "checkpoint, the shape in current model is torch.Size([4, 3]).",
        'While copying the parameter named "first.bias", expected torch.Tensor or Tensor-like '
        "object from checkpoint but received <class 'int'>",
    ]
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(value, before[name])
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like"):
        net.load_state_dict([1])


def test_copies_are_independent_and_keep_sharing() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    twin = copy.deepcopy(net)
    assert twin[1].weight is twin[0].weight is not net[0].weight
    assert isinstance(twin[0].weight, nn.Parameter)


def test_repr() -> None:
    assert repr(nn.Sequential(nn.Linear(2, 3), nn.ReLU())) == (
        "Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=True)\n  (1): ReLU()\n)"
    )
    assert repr(nn.Conv2d(4, 4, 3, stride=2, padding=1, groups=2, bias=False, dilation=2)) == (
        "Conv2d(4, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(2, 2), "
        "groups=2, bias=False)"
    )
    same = nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()])
    assert repr(same) == "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"
    assert repr(nn.Embedding(4, 3, padding_idx=-1)) == "Embedding(4, 3, padding_idx=3)"
    assert repr(nn.LayerNorm(3)) == "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)"


def test_parameter() -> None:
    p = nn.Parameter(torch.ones(2))
    assert p.requires_grad and p.is_leaf and isinstance(p, torch.Tensor)
    assert not isinstance(p * 2, nn.Parameter)
    assert repr(p).startswith("Parameter containing:\n")
    with pytest.raises(RuntimeError, match="can require gradients"):
        nn.Parameter(torch.ones(2, dtype=torch.int64))
    assert not nn.Parameter(torch.ones(2, dtype=torch.int64), requires_grad=False).requires_grad
    with pytest.raises(AttributeError, match="takes a Tensor, not list"):
        nn.Parameter([1.0])

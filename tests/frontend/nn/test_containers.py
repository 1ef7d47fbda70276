"""Containers of modules and parameters."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from graphc.errors import TraceError


def test_sequential_is_a_list_of_layers() -> None:
    layers = [nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)]
    net = nn.Sequential(*layers)
    assert len(net) == 3 and list(net) == layers and net[-1] is layers[2]
    assert list(net[1:]) == layers[1:] and list(net[1:]._modules) == ["1", "2"]
    assert net(torch.ones(4, 2)).shape == (4, 1)
    net.append(nn.Tanh()).insert(0, nn.Flatten())
    assert [type(m).__name__ for m in net] == ["Flatten", "Linear", "ReLU", "Linear", "Tanh"]
    assert list(net._modules) == ["0", "1", "2", "3", "4"]
    del net[0], net[-1]
    assert list(net) == layers and list(net._modules) == ["0", "1", "2"]
    net[1] = nn.GELU()
    assert isinstance(net[1], nn.GELU)
    net.extend([nn.ReLU()])
    assert len(net) == 4
    assert net.pop(0) is layers[0] and isinstance(net.pop(slice(1, 3)), nn.Sequential)
    assert len(net) == 1


def test_sequential_arithmetic() -> None:
    net = nn.Sequential(OrderedDict(first=nn.ReLU(), second=nn.Tanh()))
    both = net + net
    assert list(both._modules) == ["0", "1", "2", "3"] and both[2] is net[0]
    assert [*(net * 2)] == [*(2 * net)] == [*net, *net]
    other = nn.Sequential(nn.GELU())
    other += net
    other *= 2
    assert len(other) == 6 and other[3] is other[0]
    net += net
    assert len(net) == 4
    with pytest.raises(ValueError, match="add operator supports only objects of Sequential"):
        net + [nn.ReLU()]
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
        net * 0
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \*"):
        net * "a"


def test_sequential_with_names() -> None:
    net = nn.Sequential(OrderedDict(first=nn.ReLU(), second=nn.Tanh()))
    assert net.first is net[0] and list(net[1:]._modules) == ["second"]
    net.insert(1, nn.GELU())
    assert list(net._modules) == ["0", "1", "2"]


def test_empty_sequential_is_the_identity() -> None:
    x = torch.ones(2)
    assert nn.Sequential()(x) is x


def test_module_list() -> None:
    items = nn.ModuleList([nn.Linear(1, 1)])
    items.append(nn.ReLU()).extend(nn.Tanh() for _ in range(2))
    assert len(items) == 4 and list(items._modules) == ["0", "1", "2", "3"]
    assert isinstance(items[:2], nn.ModuleList) and len(items[:2]) == 2
    assert len(list(items.parameters())) == 2
    more = items + [nn.GELU()]
    assert len(more) == 5 and more[0] is items[0]
    items += [nn.GELU()]
    assert items.insert(-1, nn.Sigmoid()) is None and type(items[-2]) is nn.Sigmoid
    assert type(items.pop(-1)) is nn.GELU and len(items) == 5


def test_module_dict() -> None:
    items = nn.ModuleDict({"b": nn.Linear(1, 1), "a": nn.ReLU()})
    items.update([("c", nn.Tanh()), ["d", nn.GELU()]])
    assert list(items) == ["b", "a", "c", "d"] == list(items.keys()) and "a" in items
    assert items["b"] is items.b is next(iter(items.values()))
    assert type(items.pop("c")) is nn.Tanh and len(items) == 3
    items["a"] = nn.Tanh()
    del items["d"]
    assert [(k, type(v).__name__) for k, v in items.items()] == [("b", "Linear"), ("a", "Tanh")]
    with pytest.raises(KeyError, match="'q'"):
        items["q"]
    items.clear()
    assert not items


@pytest.mark.parametrize(
    ("update", "error", "message"),
    [
        (3, TypeError, "should be called with an iterable of key/value pairs, but got int"),
        ([3], TypeError, "element #0 should be Iterable"),
        ([("a", nn.ReLU()), ("b", nn.ReLU(), 1)], ValueError, "#1 has length 3; 2 is required"),
    ],
)
def test_wrong_updates_add_nothing(update: Any, error: Any, message: str) -> None:
    for items in (nn.ModuleDict(), nn.ParameterDict()):
        with pytest.raises(error, match=message):
            items.update(update)
        assert len(items) == 0


def test_parameter_list() -> None:
    items = nn.ParameterList([torch.ones(2), nn.Parameter(torch.zeros(1))])
    assert all(isinstance(item, nn.Parameter) for item in items)
    assert [name for name, _ in items.named_parameters()] == ["0", "1"]
    items.append(torch.ones(3)).extend([torch.ones(4)])
    items += [5]
    assert len(items) == 5 and items[-1] == 5 and list(items.state_dict()) == ["0", "1", "2", "3"]
    items[0] = torch.zeros(7)
    assert items[0].shape == (7,) and len(items[1:3]) == 2
    assert "(0): Parameter containing: [torch.float32 of size 7]" in repr(items)
    with pytest.raises(RuntimeError, match="ParameterList should not be called"):
        items(1)
    with pytest.raises(RuntimeError, match="can require gradients"):
        items.append(torch.tensor([1]))
    assert len(items) == 5 and len(list(items)) == 5
    with pytest.raises(IndexError, match="index 5 is out of range"):
        items[5]


def test_parameter_dict() -> None:
    items = nn.ParameterDict({"b": torch.ones(1), "a": torch.zeros(1)})
    assert list(items) == ["a", "b"] and isinstance(items["a"], nn.Parameter)
    items.update(OrderedDict(d=torch.ones(1), c=3))
    assert list(items.keys()) == ["a", "b", "d", "c"] == list(reversed(items))[::-1]
    assert items.get("q") is None and items.get("c") == 3 and items.popitem() == ("c", 3)
    assert items.setdefault("e", torch.ones(2)) is items["e"]
    joined = items | {"f": torch.ones(1)}
    assert "f" in joined and "f" not in items and joined["a"] is items["a"]
    assert list(items.copy()) == list(items)
    assert items.pop("e").shape == (2,) and list(items.state_dict()) == ["a", "b", "d"]
    with pytest.raises(TypeError, match="cannot be used as a key as it is not a string"):
        items[3]
    with pytest.raises(KeyError, match="already exists"):
        items["keys"] = torch.ones(1)
    assert "keys" not in items and len(items) == 3
    items.clear()
    assert len(items) == 0 and not list(items.parameters())


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Linear(1, 1), nn.ReLU()),
        lambda: nn.ModuleList([nn.Linear(1, 1)]),
        lambda: nn.ModuleDict({"a": nn.Linear(1, 1)}),
        lambda: nn.ParameterList([torch.ones(2), 3]),
        lambda: nn.ParameterDict({"a": torch.ones(2), "b": 3}),
    ],
)
def test_containers_are_copied_and_pickled(make: Any) -> None:
    items = make()
    for twin in (copy.deepcopy(items), pickle.loads(pickle.dumps(items))):
        assert repr(twin) == repr(items) and len(twin) == len(items)
        for mine, other in zip(items.parameters(), twin.parameters(), strict=True):
            assert mine is not other
            np.testing.assert_array_equal(mine.detach(), other.detach())


def test_errors() -> None:
    net = nn.Sequential(nn.ReLU())
    with pytest.raises(IndexError, match="index 3 is out of range"):
        net[3]
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        net["a"]
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        nn.Sequential(3)
    with pytest.raises(TypeError, match="ReLU is not a Module subclass"):
        net.append(nn.ReLU)
    with pytest.raises(AssertionError, match="module should be of type"):
        net.insert(0, 3)
    with pytest.raises(IndexError, match="Index out of range: 9"):
        net.insert(9, nn.ReLU())
    with pytest.raises(TypeError, match="extend should be called with an iterable, but got int"):
        nn.ModuleList(3)
    with pytest.raises(NotImplementedError, match='missing the required "forward" function'):
        nn.ModuleList()(1)


def test_containers_in_compiled_code() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])
            self.named = nn.ModuleDict({"out": nn.Linear(2, 1)})
            self.scales = nn.ParameterList([torch.full((2,), 2.0)])
            self.shifts = nn.ParameterDict({"a": torch.full((1,), 3.0)})

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x) * self.scales[0]
            return self.named["out"](x) + self.shifts["a"]

    net = Net()
    compiled, x = torch.compile(net), torch.ones(3, 2)
    np.testing.assert_allclose(compiled(x).detach(), net(x).detach(), rtol=1e-6)
    net.layers.append(nn.Linear(2, 2))
    np.testing.assert_allclose(compiled(x).detach(), net(x).detach(), rtol=1e-6)
    assert len(compiled.specializations) == 2


def test_containers_are_not_changed_while_tracing() -> None:
    net = nn.Sequential(nn.ReLU(), nn.Tanh())
    for change in (lambda: net.append(nn.ReLU()), lambda: net.pop(0), lambda: net.__delitem__(0)):
        with pytest.raises(TraceError, match="is assigned while tracing"):
            torch.compile(lambda x, change=change: change() and x, fullgraph=True)(torch.ones(1))
        assert len(net) == 2

"""Sequential and ModuleList."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import frontend as torch
from frontend import nn


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


def test_sequential_with_names() -> None:
    net = nn.Sequential(OrderedDict(first=nn.ReLU(), second=nn.Tanh()))
    assert net.first is net[0] and list(net[1:]._modules) == ["second"]


def test_empty_sequential_is_the_identity() -> None:
    x = torch.ones(2)
    assert nn.Sequential()(x) is x


def test_module_list() -> None:
    items = nn.ModuleList([nn.Linear(1, 1)])
    items.append(nn.ReLU()).extend(nn.Tanh() for _ in range(2))
    assert len(items) == 4 and list(items._modules) == ["0", "1", "2", "3"]
    assert isinstance(items[:2], nn.ModuleList) and len(items[:2]) == 2
    assert len(list(items.parameters())) == 2


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
    with pytest.raises(TypeError, match="extend should be called with an iterable, but got int"):
        nn.ModuleList(3)
    with pytest.raises(NotImplementedError, match='missing the required "forward" function'):
        nn.ModuleList()(1)

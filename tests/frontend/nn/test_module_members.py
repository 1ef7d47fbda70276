"""Parameters and buffers as objects; building by path; conversions; copies; compiling in place."""

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


def test_buffers_are_plain_tensors_that_register_themselves() -> None:
    data = torch.ones(2)
    buffer = nn.Buffer(data, persistent=False)
    assert type(buffer) is torch.Tensor and isinstance(buffer, nn.Buffer)
    assert not isinstance(data, nn.Buffer) and not isinstance(buffer, nn.Parameter)
    data.fill_(3.0)
    assert buffer.tolist() == [3.0, 3.0] and nn.Buffer().shape == (0,)
    net = nn.Module()
    net.seen = buffer
    assert net.seen is buffer and not net.state_dict()
    net.seen = torch.zeros(3)
    assert not net.state_dict() and net.seen.shape == (3,)
    net.seen = nn.Buffer(torch.zeros(3))
    assert list(net.state_dict()) == ["seen"]
    net.seen = nn.Parameter(torch.zeros(1))
    assert not net._buffers and list(net._parameters) == ["seen"]
    with pytest.raises(AttributeError, match="Buffer takes a Tensor, not int"):
        nn.Buffer(3)


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_parameters_and_buffers_are_copied(twin: Any) -> None:
    parameter = nn.Parameter(torch.ones(2), requires_grad=False)
    buffer = nn.Buffer(torch.ones(2), persistent=False)
    other = twin(parameter)
    assert type(other) is nn.Parameter and not other.requires_grad and other is not parameter
    other = twin(buffer)
    assert isinstance(other, nn.Buffer) and not other.persistent
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    assert twin(parameter).grad is None and twin(parameter).requires_grad
    with torch.no_grad():
        twin(parameter).fill_(5.0)
    assert parameter.tolist() == [1.0, 1.0]
    both = twin([parameter, parameter])
    assert both[0] is both[1]


def test_modules_pickled_before_an_attribute_existed() -> None:
    net = nn.Linear(2, 1)
    state = net.__getstate__()
    for name in ("_forward_hooks_always_called", "_load_state_dict_post_hooks"):
        del state[name]
    state["_parameters"] = OrderedDict(state["_parameters"])
    old = nn.Linear.__new__(nn.Linear)
    old.__setstate__(state)
    x = torch.ones(3, 2)
    assert old(x).tolist() == net(x).tolist() and type(old._parameters) is type(net._parameters)
    old.register_forward_hook(lambda module, args, output: output * 0, always_call=True)
    compiled = torch.compile(old)
    assert compiled(x).abs().sum().item() == 0
    with torch.no_grad():
        old.load_state_dict(net.state_dict())


def test_set_submodule() -> None:
    net = nn.Sequential(OrderedDict(block=nn.Sequential(nn.Linear(1, 1), nn.ReLU())))
    net.set_submodule("block.1", nn.Tanh())
    assert type(net.block[1]) is nn.Tanh
    net.set_submodule("block.new", nn.ReLU())
    assert list(net.block._modules) == ["0", "1", "new"]
    with pytest.raises(AttributeError, match="Sequential has no attribute `other`"):
        net.set_submodule("block.other", nn.ReLU(), strict=True)
    with pytest.raises(AttributeError, match=r"`weight` is not an nn.Module"):
        net.set_submodule("block.0.weight", nn.ReLU())
    with pytest.raises(ValueError, match="without a target name"):
        net.set_submodule("", nn.ReLU())
    with pytest.raises(ValueError, match=r"`module` is not an nn.Module, found <class 'int'>"):
        net.set_submodule("block", 3)  # type: ignore[arg-type]
    assert type(net.block) is nn.Sequential


def test_arguments_of_init() -> None:
    with pytest.raises(TypeError, match=r"Module.__init__\(\) got an unexpected keyword argument"):
        nn.Module(size=3)
    with pytest.raises(TypeError, match="takes 1 positional argument but 3 were given"):
        nn.Module(1, 2)

    class Mixin:
        def __init__(self, size: int) -> None:
            self.size = size

    class Net(nn.Module, Mixin):
        call_super_init = True

        def __init__(self) -> None:
            super().__init__(size=3)

    assert Net().size == 3


def test_a_child_under_any_name_takes_it_over() -> None:
    net = nn.Module()
    net.training = nn.Parameter(torch.ones(1))
    assert list(net._parameters) == ["training"] and "training" not in vars(net)
    with pytest.raises(KeyError, match="attribute 'forward' already exists"):
        net.forward = nn.Parameter(torch.ones(1))
    with pytest.raises(ValueError, match="Cannot assign non-leaf Tensor to parameter 'p'"):
        member: Any = nn.Parameter(torch.ones(1))
        member._edge = (torch.ones(1, requires_grad=True) * 2)._edge
        net.register_parameter("p", member)


# -- conversions ---------------------------------------------------------------------------------


def convertible() -> Any:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    net[0].register_buffer("count", torch.tensor([1, 2]))
    net[0].register_buffer("mean", torch.ones(2))
    net(torch.ones(1, 2)).sum().backward()
    return net


@pytest.mark.parametrize(
    ("change", "dtype"),
    [
        (lambda net: net.double(), "float64"),
        (lambda net: net.half(), "float16"),
        (lambda net: net.bfloat16(), "bfloat16"),
        (lambda net: net.double().float(), "float32"),
        (lambda net: net.to(torch.float64, True), "float64"),
        (lambda net: net.to("cpu", torch.float64), "float64"),
        (lambda net: net.to(torch.device("cpu")), "float32"),
        (lambda net: net.to(torch.zeros(1).double()), "float64"),
        (lambda net: net.to(dtype=torch.float64, non_blocking=True), "float64"),
        (lambda net: net.to(memory_format=torch.channels_last), "float32"),
        (lambda net: net.cpu(), "float32"),
        (lambda net: net.share_memory(), "float32"),
        (lambda net: net.to_empty(device="cpu"), "float32"),
    ],
)
def test_conversions(change: Any, dtype: str) -> None:
    net = convertible()
    weight, grad = net[0].weight, net[0].weight.grad
    assert change(net) is net
    wanted = getattr(torch, dtype)
    assert net[0].weight is weight and weight.grad is grad and weight.is_leaf
    assert weight.dtype is grad.dtype is net[0].mean.dtype is wanted
    assert net[0].count.dtype is torch.int64


def test_type_converts_everything() -> None:
    net = nn.Module()
    net.register_buffer("count", torch.tensor([1, 2]))
    assert net.type("torch.DoubleTensor").count.dtype is torch.float64
    assert net.type(torch.int32).count.dtype is torch.int32
    with pytest.raises(RuntimeError, match="must be floating point"):
        nn.Linear(1, 1).type(torch.int64)


def test_wrong_conversions_change_nothing() -> None:
    net = convertible()
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        net.cuda()
    assert nn.ReLU().cuda() is not None
    for wrong, words in (
        ({"dtype": torch.int64}, "only accepts floating point or complex dtypes"),
        ({"memory_format": 3}, "must be torch.memory_format, not int"),
        ({"other": 1}, r"invalid combination of arguments - got \(other=\)"),
    ):
        with pytest.raises(TypeError, match=words):
            net.to(**wrong)
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        net.to(torch.float64, False, 3, 4)
    assert net[0].weight.dtype is torch.float32


def test_zero_grad_keeps_the_tensors_where_asked() -> None:
    net = convertible()
    grad = net[0].weight.grad
    net.zero_grad(set_to_none=False)
    assert net[0].weight.grad is grad and not grad.any()
    step = torch.compile(lambda x: (net.zero_grad(False), net(x).sum().backward())[1])
    for _ in range(2):
        step(torch.ones(1, 2))
    first = np.array(net[0].weight.grad)
    net.zero_grad()
    net(torch.ones(1, 2)).sum().backward()
    np.testing.assert_allclose(net[0].weight.grad, first)


# -- compiling in place --------------------------------------------------------------------------


def test_a_module_compiled_in_place() -> None:
    net = convertible()
    x = torch.ones(3, 2)
    expected = net(x).tolist()
    net.compile()
    assert net(x).tolist() == expected and len(net._compiled_call_impl.specializations) == 1
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert twin._compiled_call_impl is None and twin(x).tolist() == expected
    handle = net.register_forward_hook(lambda module, args, output: output + 1)
    np.testing.assert_allclose(net(x).detach(), np.array(expected) + 1)
    handle.remove()


def test_what_a_forward_reads_without_calling_is_guarded() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.settings = nn.ModuleDict({"scale": nn.Module()})
            self.settings["scale"].by = 2.0

        def forward(self, x: Any) -> Any:
            return x * self.settings["scale"].by

    net = Net()
    compiled = torch.compile(net)
    assert compiled(torch.ones(1)).tolist() == [2.0]
    net.settings["scale"].by = 3.0
    assert compiled(torch.ones(1)).tolist() == [3.0]
    assert "Module.by was 2.0, is 3.0" in compiled.explain()


@pytest.mark.parametrize(
    "change",
    [
        lambda net: setattr(net, "added", nn.ReLU()),
        lambda net: net.register_buffer("added", torch.ones(1)),
        lambda net: net.register_parameter("added", None),
        lambda net: net.add_module("added", None),
        lambda net: delattr(net, "bias"),
        lambda net: delattr(net, "in_features"),
        lambda net: setattr(net, "bias", None),
        lambda net: setattr(net, "note", None),
        lambda net: setattr(net, "weight", nn.Parameter(torch.ones(1, 1))),
    ],
)
def test_modules_are_not_changed_while_tracing(change: Any) -> None:
    net = nn.Linear(1, 1)
    before = (list(net._parameters), list(net._buffers), list(net._modules), list(vars(net)))
    with pytest.raises(TraceError, match="is assigned while tracing"):
        torch.compile(lambda x: (change(net), net(x))[1], fullgraph=True)(torch.ones(1))
    after = (list(net._parameters), list(net._buffers), list(net._modules), list(vars(net)))
    assert before == after
    net(torch.ones(1))

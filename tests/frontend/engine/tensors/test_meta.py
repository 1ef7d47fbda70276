"""The device meta: types without data."""

from __future__ import annotations

import copy
import pickle

import pytest

import frontend
from frontend import nn
from graphc.errors import TraceError

HUGE = (10**6, 10**7)


def test_an_op_gives_the_type_of_its_result_alone() -> None:
    x = frontend.empty(HUGE, device="meta")
    y = (x.T.reshape(10**7, 10**3, 10**3)[:3] * 2).sum(-1).add_(1)
    assert (y.device.type, y.is_meta, y.is_cpu) == ("meta", True, False)
    assert (y.shape, y.stride(), y.dtype) == ((3, 10**3), (10**3, 1), frontend.float32)
    assert x.untyped_storage().nbytes() == 4 * 10**13 and x.data_ptr() == 0


def test_functions_that_make_tensors_take_the_device_of_the_block() -> None:
    with frontend.device("meta"):
        tensors = [
            frontend.zeros(HUGE), frontend.randn(HUGE), frontend.randint(3, HUGE),
            frontend.rand(HUGE, dtype=frontend.float16), frontend.tensor([1.0]),
            frontend.arange(4), frontend.eye(2), frontend.full((2,), 1), frontend.randperm(3),
            frontend.as_tensor([1]), frontend.hann_window(3), frontend.normal(0.0, 1.0, HUGE),
            frontend.linspace(0, 1, 3), frontend.empty_strided(HUGE, (1, 1)),
        ]  # fmt: skip
        with frontend.device("cpu"):
            inner = frontend.ones(1)
        plain = frontend.ones_like(inner), inner.new_zeros(2)
    assert all(x.is_meta for x in tensors)
    assert not inner.is_meta and not any(x.is_meta for x in plain)
    assert frontend.ones_like(tensors[0]).is_meta and tensors[0].new_zeros(2).is_meta
    assert not frontend.ones(1).is_meta


def test_the_default_device() -> None:
    frontend.set_default_device("meta")
    try:
        assert frontend.get_default_device().type == "meta" and frontend.ones(1).is_meta
    finally:
        frontend.set_default_device(None)
    assert frontend.ones(1).is_cpu


def test_nothing_is_drawn() -> None:
    frontend.manual_seed(3)
    expected = frontend.rand(1).item()
    frontend.manual_seed(3)
    nn.init.orthogonal_(nn.init.trunc_normal_(frontend.empty(3, 3, device="meta")))
    nn.Linear(5, 5, device="meta").weight.data.bernoulli_(0.5).random_(0, 9)
    assert frontend.rand(1).item() == expected


def test_a_model_without_memory_gets_some() -> None:
    with frontend.device("meta"):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.GRU(4, 2))
    assert all(x.is_meta for x in model.state_dict().values())
    filled = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.GRU(4, 2))
    with pytest.warns(UserWarning, match="which is a no-op"):
        copy.deepcopy(model).load_state_dict(filled.state_dict())
    model.load_state_dict(filled.state_dict(), assign=True)
    x = frontend.randn(5, 3)
    assert frontend.equal(model.eval()(x)[0], filled.eval()(x)[0])
    empty = nn.Linear(3, 4, device="meta").to_empty(device="cpu")
    assert empty.weight.is_cpu and empty.weight.requires_grad and empty(x).shape == (5, 4)


def test_gradients_have_no_data_either() -> None:
    layer = nn.Linear(3, 4).to("meta")
    x = frontend.ones(2, 3, requires_grad=True)
    layer(x.to("meta")).relu().sum().backward()
    assert layer.weight.grad.is_meta and layer.weight.grad.shape == (4, 3)
    y = frontend.ones(2, device="meta", requires_grad=True)
    y.sum().backward()
    assert y.grad.is_meta


def test_what_needs_data_says_so() -> None:
    x = frontend.ones(2, device="meta")
    for use in (x.item, x.tolist, x.cpu, x.nonzero, lambda: frontend.ones(2).copy_(x)):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            use()
    with pytest.raises(TypeError, match="can't convert meta device type tensor to numpy"):
        x.numpy()
    with pytest.raises(NotImplementedError, match="compiled code cannot be called on meta"):
        frontend.compile(lambda y: y + 1, fullgraph=True)(x)
    with pytest.raises(TraceError, match="runs eagerly only"):
        frontend.compile(lambda y: y.to("meta"), fullgraph=True)(frontend.ones(2))


def test_copies_pickles_and_text() -> None:
    layer = nn.Linear(3, 4, device="meta")
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert twin.weight.is_meta and isinstance(twin.weight, nn.Parameter)
    assert repr(layer.bias.detach()) == "tensor(..., device='meta', size=(4,))"

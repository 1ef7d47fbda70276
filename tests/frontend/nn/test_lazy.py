"""Lazy modules: shapes from the first input, or from what is loaded."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import frontend as torch
from frontend import nn
from frontend.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from graphc.errors import TraceError

MAKES: dict[str, Any] = {
    "LazyLinear": (lambda: nn.LazyLinear(3), (2, 5), nn.Linear, (3, 5)),
    "LazyConv1d": (lambda: nn.LazyConv1d(4, 3), (2, 6, 7), nn.Conv1d, (4, 6, 3)),
    "LazyConv2d": (lambda: nn.LazyConv2d(4, 3, groups=2), (2, 6, 5, 5), nn.Conv2d, (4, 3, 3, 3)),
    "LazyConv3d": (lambda: nn.LazyConv3d(2, 1), (3, 2, 2, 2), nn.Conv3d, (2, 3, 1, 1, 1)),
    "LazyConvTranspose1d": (
        lambda: nn.LazyConvTranspose1d(4, 3, bias=False), (2, 6, 5), nn.ConvTranspose1d, (6, 4, 3),
    ),
    "LazyConvTranspose2d": (
        lambda: nn.LazyConvTranspose2d(4, 1), (6, 2, 2), nn.ConvTranspose2d, (6, 4, 1, 1),
    ),
    "LazyConvTranspose3d": (
        lambda: nn.LazyConvTranspose3d(4, 1), (6, 2, 2, 2), nn.ConvTranspose3d, (6, 4, 1, 1, 1),
    ),
    "LazyBatchNorm1d": (nn.LazyBatchNorm1d, (4, 6), nn.BatchNorm1d, (6,)),
    "LazyBatchNorm2d": (nn.LazyBatchNorm2d, (4, 6, 2, 2), nn.BatchNorm2d, (6,)),
    "LazyBatchNorm3d": (nn.LazyBatchNorm3d, (4, 6, 2, 2, 2), nn.BatchNorm3d, (6,)),
    "LazyInstanceNorm1d": (nn.LazyInstanceNorm1d, (6, 5), nn.InstanceNorm1d, (6,)),
    "LazyInstanceNorm2d": (nn.LazyInstanceNorm2d, (2, 6, 3, 3), nn.InstanceNorm2d, (6,)),
    "LazyInstanceNorm3d": (nn.LazyInstanceNorm3d, (2, 6, 2, 2, 2), nn.InstanceNorm3d, (6,)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Lazy modules are a new feature")
        yield


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MAKES)
def test_the_first_input_gives_shapes_and_class(name: str) -> None:
    make, shape, becomes, weight = MAKES[name]
    lazy, x = make(), torch.randn(*shape)
    assert lazy.has_uninitialized_params() and is_lazy(lazy.weight)
    loaded = make()
    y = lazy(x)
    assert type(lazy) is becomes and tuple(lazy.weight.shape) == weight
    assert type(lazy.weight) is nn.Parameter and lazy.weight.requires_grad
    loaded.load_state_dict(lazy.state_dict())
    assert tuple(loaded.weight.shape) == weight
    assert type(lazy)(*_arguments(lazy)).weight.shape == lazy.weight.shape
    lazy.eval(), loaded.eval()
    assert torch.equal(loaded(x), lazy(x)) and type(loaded) is becomes
    y.sum().backward()
    assert lazy.weight.grad is not None


def _arguments(module: Any) -> tuple[Any, ...]:
    if isinstance(module, nn.Linear):
        return module.in_features, module.out_features
    if hasattr(module, "kernel_size"):
        options = (module.in_channels, module.out_channels, module.kernel_size)
        transposed = module.transposed
        return (*options, 1, 0, *((0, module.groups) if transposed else (1, module.groups)))
    options = (module.num_features, 1e-5, 0.1, True)
    return options


def test_what_has_no_shape_says_so() -> None:
    lazy = nn.LazyLinear(3, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="Can't access the shape"):
        lazy.weight.shape  # noqa: B018
    with pytest.raises(ValueError, match="uninitialized parameter"):
        lazy.weight + 1
    assert repr(lazy.weight) == "<UninitializedParameter>" and lazy.weight.dtype is torch.float64
    copied = pickle.loads(pickle.dumps(copy.deepcopy(lazy.float())))
    assert is_lazy(copied.weight) and copied.weight.dtype is torch.float32
    assert list(lazy.state_dict()) == ["weight", "bias"]


def test_a_parameter_takes_its_shape() -> None:
    parameter, buffer = UninitializedParameter(), UninitializedBuffer(dtype=torch.float64)
    parameter.materialize((2, 3))
    buffer.materialize((4,))
    assert type(parameter) is nn.Parameter and tuple(parameter.shape) == (2, 3)
    assert buffer.dtype is torch.float64 and not buffer.requires_grad


def test_the_first_call_is_eager() -> None:
    lazy = nn.LazyLinear(3)
    with pytest.raises(TraceError, match="first input in a trace"):
        torch.compile(lazy, fullgraph=True)(torch.ones(2, 4))
    lazy(torch.ones(2, 4))
    assert type(lazy) is nn.Linear
    with pytest.raises(RuntimeError, match=r"Expected 2D .* or 3D"):
        nn.LazyConv1d(2, 1)(torch.ones(3))


def test_what_has_no_shape_yet_is_of_one_class() -> None:
    from frontend.nn.parameter import UninitializedTensorMixin

    layer = nn.LazyLinear(3)
    assert isinstance(layer.weight, UninitializedTensorMixin)
    layer(torch.ones(2, 5))
    assert not isinstance(layer.weight, UninitializedTensorMixin)

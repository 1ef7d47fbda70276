"""dtypes, their names, limits and promotion; sizes; devices. What is expected is PyTorch 2.13's."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import frontend as torch
import graphc
from frontend.engine.tensors.dtypes import as_dtype

NAMES = {
    torch.float16: ("half", "Half"), torch.bfloat16: ("bfloat16", "BFloat16"),
    torch.float32: ("float", "Float"), torch.float64: ("double", "Double"),
    torch.uint8: ("uint8", "Byte"), torch.int8: ("int8", "Char"), torch.int16: ("short", "Short"),
    torch.int32: ("int", "Int"), torch.int64: ("long", "Long"), torch.bool: ("bool", "Bool"),
}  # fmt: skip
# In this order a type of a higher number wins, but for the pairs below it.
ORDER = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
         torch.bfloat16, torch.float32, torch.float64]  # fmt: skip
BETWEEN = {
    frozenset({torch.uint8, torch.int8}): torch.int16,
    frozenset({torch.float16, torch.bfloat16}): torch.float32,
}


def test_a_dtype_prints_as_pytorchs_and_texts_of_graphc_keep_its_own_name() -> None:
    assert str(torch.float32) == repr(torch.float32) == "torch.float32"
    assert [str(dtype) for dtype in (torch.half, torch.short, torch.uint8)] == [
        "torch.float16", "torch.int16", "torch.uint8"
    ]  # fmt: skip
    assert f"{torch.bfloat16}" == "torch.bfloat16" and torch.bfloat16.value == "bf16"
    g = graphc.GraphBuilder("g")
    graph = g.finish(graphc.ops.elementwise.cast(g.input("x", "bf16[2]"), dtype=torch.int8))
    assert "cast(%x) dtype=i8 : i8[2]" in str(graph)
    assert str(graphc.TensorType(torch.float16, (2,))) == "f16[2]"
    with pytest.raises(graphc.DTypeError, match="one of f32, f64, i32, i64"):
        g = graphc.GraphBuilder("g")
        g.input("x", "u8[2]") + g.input("y", "u8[2]")


@pytest.mark.parametrize("dtype", NAMES)
def test_names(dtype: torch.dtype) -> None:
    name, scalar = NAMES[dtype]
    full = str(dtype)
    assert getattr(torch, name) is getattr(torch, full.removeprefix("torch.")) is dtype
    for spelling in (dtype, name, full, full.removeprefix("torch."), dtype.numpy, dtype.numpy.type):
        assert as_dtype(spelling) is dtype
    x = torch.zeros(2, dtype=dtype)
    kind = getattr(torch, f"{scalar}Tensor")
    assert x.type() == f"torch.{scalar}Tensor"
    assert isinstance(x, kind) and not isinstance(x.numpy(), kind)
    assert x.float().type(kind).dtype is x.float().type(x.type()).dtype is dtype
    assert repr(kind) == f"<class 'torch.{scalar}Tensor'>"
    assert kind(2, 3).shape == (2, 3) and kind([0, 1]).tolist() == [0, 1]
    assert pickle.loads(pickle.dumps(dtype)) is copy.deepcopy(dtype) is dtype
    assert x.element_size() == dtype.itemsize


def test_what_is_no_dtype() -> None:
    for wrong in ("float17", object(), None, 3):
        with pytest.raises(TypeError, match=r"must be torch\.dtype"):
            as_dtype(wrong)
    with pytest.raises(TypeError, match="datetime64 is not supported"):
        torch.zeros(1, dtype="M8")


@pytest.mark.parametrize(("left", "right"), list(itertools.product(ORDER, ORDER)))
def test_promotion(left: torch.dtype, right: torch.dtype) -> None:
    wanted = BETWEEN.get(frozenset({left, right}), max(left, right, key=ORDER.index))
    assert torch.promote_types(left, right) is wanted
    assert (torch.ones(2, dtype=left) + torch.ones(2, dtype=right)).dtype is wanted
    kinds = [2 if d.is_floating_point else int(d is not torch.bool) for d in (left, right)]
    assert torch.can_cast(left, right) is (kinds[0] <= kinds[1])


def test_limits() -> None:
    half, short = torch.finfo(torch.half), torch.iinfo(torch.short)
    assert (half.bits, half.eps, half.max, half.min) == (16, 2**-10, 65504, -65504)
    assert (half.tiny, half.smallest_normal, half.resolution) == (2**-14, 2**-14, 0.001)
    assert torch.finfo(torch.bfloat16).eps == 2**-7
    assert (short.bits, short.min, short.max, short.dtype) == (16, -32768, 32767, "int16")
    assert repr(torch.iinfo(torch.uint8)) == "iinfo(min=0, max=255, dtype=uint8)"
    assert torch.finfo().dtype == "float32"
    with pytest.raises(TypeError, match=r"Use torch\.iinfo"):
        torch.finfo(torch.int8)
    with pytest.raises(TypeError, match=r"not supported by torch\.iinfo"):
        torch.iinfo(torch.bool)


def test_default_dtype() -> None:
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.tensor([1.5]).dtype is torch.zeros(1).dtype is torch.bfloat16
        assert (torch.tensor([1]) / 2).dtype is torch.bfloat16
        assert torch.rand(3).dtype is torch.randn(3).dtype is torch.bfloat16
        with pytest.warns(UserWarning, match="deprecated"):
            torch.set_default_tensor_type(torch.DoubleTensor)
        assert torch.Tensor([1]).dtype is torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


# -- tensor types --------------------------------------------------------------------------------


def test_tensor_types_take_sizes_or_data() -> None:
    x = torch.ones(2)
    assert torch.Tensor(2, 3).shape == torch.Tensor(torch.Size([2, 3])).shape == (2, 3)
    assert torch.Tensor((2, 3)).tolist() == torch.FloatTensor([2, 3]).tolist() == [2.0, 3.0]
    assert torch.Tensor().shape == torch.LongTensor().shape == (0,)
    alias = torch.Tensor(x)
    alias[0] = 5
    assert x[0] == 5
    assert x.long().new([7]).dtype is torch.int64 and x.new(2, 1).shape == (2, 1)
    with pytest.raises(TypeError, match=r"expected a tensor of dtype torch\.int64"):
        torch.LongTensor(x)
    with pytest.raises(TypeError, match="data must be a sequence"):
        torch.Tensor(2.5)
    with pytest.raises(ValueError, match="invalid type: 'LongTensor'"):
        x.type("LongTensor")


# -- Size, device --------------------------------------------------------------------------------


def test_parts_and_sums_of_sizes_are_sizes() -> None:
    size = torch.Size([2, 3, 4])
    assert repr(size[1:]) == "torch.Size([3, 4])" and repr(size[:1] + (5,)) == "torch.Size([2, 5])"
    assert type((1,) + size) is type(size * 2) is torch.Size
    assert size.numel() == 24 and torch.zeros(size).shape == size == (2, 3, 4)
    assert pickle.loads(pickle.dumps(size)) == size
    with pytest.raises(TypeError, match="item 1 is 'float'"):
        torch.Size([1, 2.0])


def test_devices() -> None:
    cpu, numbered = torch.device("cpu"), torch.device("cpu", 0)
    assert (cpu.type, cpu.index, str(cpu)) == ("cpu", None, "cpu")
    assert (numbered.index, str(numbered)) == (0, "cpu:0") and numbered == torch.device("cpu:0")
    assert repr(numbered) == "device(type='cpu', index=0)" and cpu != numbered
    assert torch.zeros(1).device == cpu == pickle.loads(pickle.dumps(cpu))
    assert torch.device("cuda:1").index == 1  # a name; nothing can be put there
    with cpu:
        assert torch.zeros(1).is_cpu
    for use in (
        lambda: torch.zeros(1, device="cuda"), lambda: torch.zeros(1).to("cuda:0"),
        lambda: torch.zeros(1).cuda(), lambda: torch.set_default_device("cuda"),
        lambda: torch.tensor([1], device=torch.device("cuda")), lambda: torch.cuda.synchronize(),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match="not compiled with CUDA"):
            use()
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
        torch.device("gpu")
    with pytest.raises(NotImplementedError, match="there is no device 'mps'"):
        torch.zeros(1, device="mps")


def test_questions_scripts_ask() -> None:
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
    torch.cuda.manual_seed_all(1)
    import frontend.backends.cudnn as cudnn

    assert cudnn is torch.backends.cudnn and not cudnn.is_available()
    with cudnn.flags(benchmark=True):
        assert cudnn.benchmark
    assert not cudnn.benchmark
    assert not torch.backends.mps.is_available() and not torch.accelerator.is_available()
    assert torch.get_num_threads() >= 1 and torch.get_num_interop_threads() == 1
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.__version__.startswith("2.13")
    assert torch.zeros(1).layout is torch.strided


# -- casts ---------------------------------------------------------------------------------------


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("source", "target"), list(itertools.product(ORDER, ORDER)))
def test_casts_compiled_are_casts_eager(source: torch.dtype, target: torch.dtype) -> None:
    x = torch.tensor([0.0, 1.5, -2.7, 200.3, -300.0, 70000.0]).to(source)
    compiled = torch.compile(lambda x: x.to(target))(x)
    assert compiled.dtype is target
    assert compiled.tolist() == x.to(target).tolist()


def test_to() -> None:
    x = torch.ones(2)
    assert x.to("cpu") is x.to(torch.float32) is x.to() is x
    assert x.to(torch.float32, copy=True) is not x
    assert x.to("cpu", torch.half).dtype is x.to(x.half()).dtype is torch.float16
    with pytest.raises(RuntimeError, match="required rank 4 tensor"):
        x.to(memory_format=torch.channels_last)
    for wrong in (lambda: x.to(torch.half, torch.half), lambda: x.to(dtipe=torch.half)):
        with pytest.raises(TypeError, match="invalid combination of arguments"):
            wrong()
    y = x.clone().requires_grad_()
    (y.half() * 3).float().sum().backward()
    assert y.grad.tolist() == [3, 3]


def program(x: Any, w: Any) -> Any:
    """A layer in half precision."""
    hidden = (x.half() @ w.half()).relu()
    return (hidden.bfloat16() * 0.1).float().pow(2).mean()


def test_half_precision_is_the_same_compiled() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(4, 3), torch.randn(3, 5, requires_grad=True)
    program(x, w).backward()
    eager, w.grad = w.grad, None
    loss = torch.compile(program)(x, w)
    loss.backward()
    assert loss.item() == pytest.approx(program(x, w).item(), rel=1e-2)
    np.testing.assert_allclose(w.grad, eager, atol=1e-2 * float(eager.abs().max()))


def test_views_of_halves_have_gradients() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).bfloat16().requires_grad_()
    y = torch.cat([x.t()[1], x[:, None].expand(2, 3, 2)[1, 0], x[[0, 0]].reshape(-1)])
    y.sum().backward()
    assert x.grad.dtype is torch.bfloat16
    assert x.grad.tolist() == [[2, 3], [1, 2]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_elements_of_halves_are_assigned_with_gradients(dtype: torch.dtype) -> None:
    def slopes(x: Any, v: Any) -> Any:
        y = x * 1
        y[torch.tensor([0, 2])] = v * 3
        y[3:] = v[:1]
        return torch.autograd.grad(y.sum(), [x, v])

    x, v = (torch.ones(n, dtype=dtype, requires_grad=True) for n in (4, 2))
    for function in (slopes, torch.compile(slopes)):
        of_x, of_v = function(x, v)
        assert of_x.dtype is of_v.dtype is dtype
        assert of_x.tolist() == [0, 1, 0, 0] and of_v.tolist() == [4, 3]

"""dtypes, promotion, casts, devices and creation against PyTorch: expressions that print the same
or raise the same kind of error in both systems."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import frontend

NAMES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
]  # fmt: skip
PAIRS = list(itertools.product(NAMES, NAMES))


def both(peer: Any, call: Any) -> None:
    """`call(system)` has the same text in both."""
    assert str(call(frontend)) == str(call(peer.torch))


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_promotion(peer: Any, left: str, right: str) -> None:
    def types(s: Any) -> list[Any]:
        a, b = getattr(s, left), getattr(s, right)
        shapes = itertools.product([(2,), ()], repeat=2)
        results = [s.result_type(s.ones(m, dtype=a), s.ones(n, dtype=b)) for m, n in shapes]
        sums = [(s.ones(2, dtype=a) + s.ones((), dtype=b)), s.ones(2, dtype=a) * s.ones(2, dtype=b)]
        return [s.promote_types(a, b), s.can_cast(a, b), *results, *(x.dtype for x in sums)]

    both(peer, types)


@pytest.mark.parametrize("name", NAMES)
def test_promotion_with_numbers(peer: Any, name: str) -> None:
    def types(s: Any) -> list[Any]:
        numbers = (True, 3, 2.5, np.float64(2), np.int64(2), np.float32(1.5))
        tensors = [s.ones(shape, dtype=getattr(s, name)) for shape in ((2,), ())]
        pairs = list(itertools.product(tensors, numbers))
        return [s.result_type(x, n) for x, n in pairs] + [(x * n).dtype for x, n in pairs]

    both(peer, types)


VALUES = (0.0, 1.0, -1.0, 1.5, -2.7, 100.9, 200.0, -200.0, 300.4, 40000.0, -70000.5, 1e6)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_casts(peer: Any, source: str, target: str) -> None:
    """Values that lie in the range of int32: outside, PyTorch leaves it to the machine."""

    def cast(s: Any) -> Any:
        x = s.tensor(VALUES if source != "float16" else VALUES[:-2]).to(getattr(s, source))
        return x.to(getattr(s, target)).tolist()

    both(peer, cast)


ELEMENTWISE = ["add", "sub", "mul", "true_divide", "floor_divide", "remainder", "pow", "maximum",
               "eq", "lt", "bitwise_and", "bitwise_xor"]  # fmt: skip


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_arithmetic_on_all_pairs(peer: Any, name: str) -> None:
    """Equal dtypes and values, or an error in both."""
    for left, right in PAIRS:
        differences = []
        for s in (frontend, peer.torch):
            x = s.tensor([1, 3, 2]).to(getattr(s, left))
            y = s.tensor([3, 2, 1]).to(getattr(s, right))
            try:
                result = getattr(s, name)(x, y)
                differences.append((str(result.dtype), result.double().tolist()))
            except RuntimeError:
                differences.append(("error", []))
        (ours, mine), (theirs, other) = differences
        assert ours == theirs, (left, right)
        np.testing.assert_allclose(mine, other, rtol=1e-6, err_msg=f"{left}, {right}")


UNARY = ["neg", "abs", "sqrt", "exp", "sum", "mean", "prod", "max", "argmax", "any", "sign",
         "square", "relu", "isnan", "floor", "sigmoid", "softmax", "cumsum", "sort",
         "flip"]  # fmt: skip
WITH_DIM = {"softmax": (0,), "cumsum": (0,), "sort": (0,), "flip": (0,)}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", NAMES)
def test_functions_of_one_tensor(peer: Any, name: str, dtype: str) -> None:
    differences = []
    for s in (frontend, peer.torch):
        x = s.tensor([1, 3, 2]).to(getattr(s, dtype))
        try:
            result = getattr(x, name)(*WITH_DIM.get(name, ()))
            result = result[0] if name == "sort" else result
            differences.append((str(result.dtype), result.double().tolist()))
        except RuntimeError:
            differences.append(("error", []))
    (ours, mine), (theirs, other) = differences
    assert ours == theirs
    bound = {"float16": 2e-3, "bfloat16": 1e-2}.get(dtype, 1e-6)
    np.testing.assert_allclose(mine, other, rtol=bound)


# -- expressions ---------------------------------------------------------------------------------

TYPES = """
torch.FloatTensor(); torch.FloatTensor(2, 0); torch.FloatTensor(torch.Size([2, 0]))
torch.FloatTensor([2, 3]); torch.FloatTensor((2, 3)); torch.FloatTensor(np.array([1., 2.]))
torch.LongTensor(np.array([1.5, 2])); torch.LongTensor([1.5]); torch.LongTensor([True])
torch.FloatTensor(torch.tensor([1])); torch.FloatTensor(torch.tensor([1.]))
torch.Tensor(torch.tensor([1])); torch.Tensor(3.5); torch.Tensor(1).shape; torch.Tensor(1, 2.5)
torch.Tensor('abc'); torch.Tensor(None); torch.Tensor(-1); torch.Tensor([[1, 2], [3]])
torch.Tensor(torch.tensor(3)); torch.Tensor(np.int64(3)).shape
torch.Tensor([1, 2], device='cpu'); torch.Tensor(data=[1, 2]); torch.Tensor(size=(2, 0))
torch.LongTensor(range(3)); torch.BoolTensor([0, 2]); torch.ByteTensor([255, 256])
torch.ByteTensor([-1]); torch.HalfTensor([1.5]); torch.BFloat16Tensor([1.5])
torch.CharTensor([-5]); torch.ShortTensor([7]); torch.IntTensor([7]); torch.DoubleTensor([7])
isinstance(x, torch.FloatTensor); isinstance(x, torch.LongTensor); isinstance(3, torch.FloatTensor)
isinstance(torch.nn.Parameter(x), torch.FloatTensor); isinstance(x, torch.cuda.FloatTensor)
torch.FloatTensor; torch.cuda.FloatTensor; torch.cuda.FloatTensor(2); torch.FloatTensor.dtype
x.type(torch.LongTensor); x.type('torch.LongTensor'); x.type('torch.cuda.LongTensor')
x.type('LongTensor'); x.type(torch.int8); x.type('torch.HalfTensor').type(); x.type(int)
x.type(torch.float16).type(); x.new([1, 2]); x.new(2, 0); x.new(torch.tensor([1]))
torch.finfo(torch.float32); torch.finfo(torch.bfloat16); torch.finfo(torch.float16)
torch.finfo(torch.float64); torch.finfo(); torch.finfo(torch.int8); torch.finfo(float)
torch.iinfo(torch.uint8); torch.iinfo(torch.float32); torch.iinfo(torch.bool); torch.iinfo(int)
torch.iinfo(torch.int64); torch.iinfo(torch.int16).bits; torch.iinfo(torch.int16).max
torch.iinfo(torch.int16).min; torch.iinfo(torch.int16).dtype; torch.finfo(torch.float16).tiny
torch.finfo(torch.float64).eps; torch.finfo(torch.float32).max; torch.finfo(torch.bfloat16).min
torch.finfo(torch.float16).smallest_normal; torch.finfo(torch.bfloat16).resolution
str(torch.bfloat16); repr(torch.bool); torch.half; torch.int; torch.short; torch.double; torch.long
torch.float32.is_signed; torch.uint8.is_signed; torch.bool.is_signed; torch.bool.itemsize
torch.float16.is_floating_point; torch.int8.is_floating_point; torch.float32.is_complex
x.half().dtype; x.bfloat16().dtype; x.byte().dtype; x.char().dtype; x.short().dtype; x.int().dtype
x.long().dtype; x.bool().dtype; x.double().dtype; x.float() is x; x.to(torch.float16).dtype
x.to('cpu') is x; x.to(torch.float32) is x; x.to(torch.float32, copy=True) is x; x.to() is x
x.to('cpu', torch.int64).dtype; x.to(torch.zeros(1, dtype=torch.int8)).dtype; x.to(None) is x
x.to(device='cpu', dtype=torch.float64, non_blocking=True).dtype; x.to(float).dtype
x.to(torch.float32, memory_format=torch.contiguous_format) is x; x.to('float32'); x.to(foo=1)
x.to(memory_format=torch.channels_last); x.to(torch.float32, torch.float64); x.to(np.float32)
x.type_as(torch.zeros(1, dtype=torch.uint8)).dtype; g.half(); g.to(torch.float64)
x.element_size(); x.itemsize; x.nbytes; x.is_signed(); x.byte().is_signed(); x.bool().is_signed()
torch.typename(x); torch.typename(3); torch.typename('a'); x.half().element_size()
"""
PLACES = """
torch.device('cpu', 0); torch.device('cpu') == torch.device('cpu:0'); torch.device('cpu:0')
torch.device('cpu') == 'cpu'; torch.device('cuda'); torch.device('cuda:1').index
torch.device(type='cpu', index=0); torch.device('foo'); torch.device('cpu:'); torch.device('cpu:-1')
torch.device(0); torch.device(None); str(torch.device('cpu', 0)); torch.device(torch.device('cpu'))
torch.device('cpu', index=-1); torch.device('meta'); torch.device('xla')
hash(torch.device('cpu')) == hash(torch.device('cpu')); torch.zeros(1, device='cuda')
torch.zeros(1, device=torch.device('cuda', 0)); x.cuda(); x.to('cuda'); x.device.index; x.to(0)
torch.zeros(1, device='cpu:0').device; torch.zeros(1, device='mps'); torch.get_default_device()
torch.Size([1, 2]) + (3,); (3,) + torch.Size([1, 2]); torch.Size([1, 2])[0:1]
torch.Size([1, 2]) * 2; 2 * torch.Size([1, 2]); torch.Size((1, 2)).numel(); torch.Size([1.5])
torch.Size(3); torch.Size([torch.tensor(2)]); torch.Size(); torch.Size([2, 3]) == (2, 3)
torch.Size([2, 3])[1]; torch.strided; torch.contiguous_format; torch.preserve_format
torch.channels_last; torch.channels_last_3d; x.layout; isinstance(torch.strided, torch.layout)
isinstance(torch.channels_last, torch.memory_format); torch.set_num_threads(0)
torch.set_num_threads(1.5); torch.use_deterministic_algorithms(True)
torch.are_deterministic_algorithms_enabled(); torch.get_deterministic_debug_mode()
torch.is_deterministic_algorithms_warn_only_enabled(); torch.use_deterministic_algorithms(False)
torch.set_float32_matmul_precision('high'); torch.get_float32_matmul_precision()
torch.set_float32_matmul_precision('highest'); torch.inf; torch.nan; torch.pi; torch.e
torch.newaxis; torch.cuda.is_available(); torch.cuda.device_count(); torch.cuda.is_initialized()
torch.cuda.manual_seed(0); torch.cuda.manual_seed_all(0); torch.cuda.empty_cache()
torch.cuda.current_device(); torch.cuda.synchronize(); torch.cuda.get_device_name(0)
torch.cuda.memory_allocated(); torch.cuda.max_memory_allocated(); torch.cuda.get_rng_state()
torch.cuda.is_bf16_supported(); torch.cuda.get_device_properties(0); torch.cuda.Stream()
torch.backends.cudnn.deterministic; torch.backends.cudnn.benchmark; torch.backends.cudnn.enabled
torch.backends.cudnn.is_available(); torch.backends.cudnn.version(); torch.backends.mps.is_built()
torch.backends.mps.is_available(); torch.accelerator.is_available(); torch.mps.is_available()
torch.xpu.is_available(); torch.version.cuda; torch.is_tensor(x); torch.numel(x)
torch.set_default_device('cpu'); x.is_cuda; x.is_mps; x.is_xpu; x.is_cpu; x.is_quantized
x.is_sparse; x.is_meta; x.is_mkldnn; x.is_nested; x.is_inference(); x.get_device()
x.pin_memory(); x.is_pinned(); x.is_shared(); x.is_conj(); x.is_neg(); x.is_complex()
torch.set_flush_denormal(False); torch.get_default_dtype()
"""


def expressions(text: str) -> list[str]:
    return [each.strip() for line in text.strip().splitlines() for each in line.split(";")]


@pytest.mark.parametrize("expression", expressions(TYPES) + expressions(PLACES))
def test_expressions(peer: Any, expression: str) -> None:
    peer.expression(expression)

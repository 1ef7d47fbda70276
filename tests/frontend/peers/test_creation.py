"""Creating tensors against PyTorch: expressions that print the same, or raise the same kind of
error, in both systems; and memory shared with it through DLPack."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import frontend

DATA = """
torch.tensor([256], dtype=torch.uint8); torch.tensor([-1], dtype=torch.uint8)
torch.tensor([300], dtype=torch.int8); torch.tensor([-300], dtype=torch.uint8)
torch.tensor([70000], dtype=torch.int16); torch.tensor([1.7], dtype=torch.int32)
torch.tensor([-1.7], dtype=torch.uint8); torch.tensor([1e10], dtype=torch.int32)
torch.tensor([torch.inf], dtype=torch.int64); torch.tensor([torch.nan], dtype=torch.int64)
torch.tensor([1e10], dtype=torch.float16); torch.tensor([70000], dtype=torch.float16)
torch.tensor([1e40]); torch.tensor([torch.inf], dtype=torch.float16); torch.tensor(2**63)
torch.tensor([2**63]); torch.tensor(2**64); torch.tensor(-2**63); torch.tensor([True, 1.5])
torch.tensor([2**31], dtype=torch.int32); torch.tensor([True, 2]); torch.tensor([1, 2.5])
torch.tensor([True, False], dtype=torch.float16); torch.tensor([0.1, 1e-7], dtype=torch.bfloat16)
torch.tensor([None]); torch.tensor('a'); torch.tensor(['a']); torch.tensor([1, 'a'])
torch.tensor(None); torch.tensor([[1, 2], [3]]); torch.tensor([1, [2]]); torch.tensor([[1], 2])
torch.tensor([[[1], [2]], [[3]]]); torch.tensor([[1.5, 2], [3, 4, 5]]); torch.tensor([[1, 2], 3])
torch.tensor([torch.tensor([1, 2]), torch.tensor([3, 4])]); torch.tensor([torch.tensor(1.5), 2])
torch.tensor([torch.tensor(1), 2]); torch.tensor([torch.tensor([1.5]), 2])
torch.tensor([torch.tensor(1, dtype=torch.int8)]); torch.tensor(range(3)); torch.tensor({1: 2})
torch.tensor([torch.tensor(1.5, dtype=torch.float64), 2]); torch.tensor([np.array([1., 2])])
torch.tensor([np.array([1., 2], np.float32), [3, 4]]); torch.tensor({1, 2})
torch.tensor((i for i in [1])); torch.tensor(np.array(['a'])); torch.tensor(np.array([1], object))
torch.tensor(np.array([1., 2], '>f8')); torch.tensor(np.float16(1)); torch.tensor(np.float64(1))
torch.tensor(np.int8(1)); torch.tensor(np.bool_(True)); torch.tensor([np.float64(1)])
torch.tensor([np.float32(1)]); torch.tensor([np.int32(1)]); torch.tensor([np.bool_(1)])
torch.tensor([np.int8(1), 2.5]); torch.tensor(()); torch.tensor([[]]); torch.tensor([[], []])
torch.tensor([[], []], dtype=torch.int64); torch.tensor([[], [1]]); torch.tensor(x)
torch.tensor(g); torch.tensor(g, requires_grad=True); torch.tensor([1], requires_grad=True)
torch.tensor([1], dtype=torch.float32, requires_grad=True); torch.tensor(data=[1])
torch.tensor([1], 2); torch.tensor(); torch.tensor([1], device='cuda'); torch.tensor(1.5).dtype
torch.tensor([1], names=['a']); torch.tensor(b'ab'); torch.tensor(bytearray(b'ab'))
torch.tensor(memoryview(b'ab')); torch.tensor([b'a']); torch.tensor(torch.Size([1, 2]))
torch.as_tensor([1, 2]); torch.as_tensor(np.array([1.])); torch.as_tensor(3)
torch.as_tensor(x) is x; torch.as_tensor(x, dtype=torch.float32) is x; torch.as_tensor(g)
torch.as_tensor(g, dtype=torch.float64); torch.asarray([1, 2]); torch.asarray(np.array([1.]))
torch.asarray(x) is x; torch.asarray(3); torch.asarray(x, copy=True) is x; torch.asarray(g)
torch.asarray([1, 2], copy=False); torch.asarray(np.array([1, 2]), copy=False)
torch.asarray(np.array([1, 2]), dtype=torch.float32, copy=False)
torch.asarray(g, requires_grad=False); torch.asarray(g, requires_grad=True); torch.asarray(g * 2)
torch.asarray(bytearray(b'abcd'), dtype=torch.int16); torch.from_numpy(np.array(['a']))
torch.from_numpy(np.array([1], object)); torch.from_numpy(np.array([1., 2], '>f8'))
torch.from_numpy([1, 2]); torch.from_numpy(np.float64(1)); torch.scalar_tensor(3)
torch.from_numpy(np.arange(4)[::2]).stride(); torch.scalar_tensor(3.5, dtype=torch.int64)
torch.frombuffer(bytearray(b'abcd'), dtype=torch.int16, count=1, offset=2)
torch.frombuffer(bytearray(b'abc'), dtype=torch.int16); torch.scalar_tensor(True)
"""
FILLED = """
torch.full((2,), True); torch.full((2,), 1); torch.full((2,), 1.5); torch.full((), 3.)
torch.full([2], 1, dtype=torch.float16); torch.full((2,), torch.tensor(1.5)); torch.full(2, 3)
torch.full((2,), 'a'); torch.full((2,), 300, dtype=torch.uint8); torch.full((2,), None)
torch.full((2,), -1, dtype=torch.uint8); torch.full((2,), 1.5, dtype=torch.int32)
torch.full((2,), [1]); torch.full((2,), 1, out=torch.empty(2)); torch.full((2,), -0.0)
torch.full((2,), 1.5, out=torch.empty(2, dtype=torch.int64)); torch.full((2,), np.int64(3))
torch.full((2,), torch.nan, dtype=torch.int64); torch.full((2,), np.float32(1.5))
torch.full((2,), torch.tensor(3)); torch.full((2,), torch.tensor([3., 2]))
torch.full(size=(2,), fill_value=1); torch.full((2,), 2, requires_grad=True)
torch.full((2,), 2., requires_grad=True); torch.zeros(2, out=torch.ones(2))
torch.zeros(2, out=torch.empty(0)); torch.zeros(2, dtype=torch.int64, out=torch.ones(2))
torch.zeros(2.5); torch.zeros([2.5]); torch.zeros('a'); torch.zeros(-1); torch.zeros()
torch.zeros(2, dtype=torch.int64, requires_grad=True); torch.zeros(torch.tensor(2))
torch.zeros((torch.tensor(2), 1)); torch.zeros(np.int64(2)); torch.zeros(size=(2,))
torch.zeros(()); torch.zeros(2, 3, [1]); torch.zeros(True); torch.zeros(2, layout=torch.strided)
torch.zeros(2, pin_memory=False); torch.zeros((2, 3), dtype=None); torch.ones(3, dtype=torch.bool)
torch.zeros(2, 3, size=(2,)); torch.empty(0); torch.empty((0, 3)); torch.zeros(2, foo=1)
torch.empty(2, memory_format=torch.contiguous_format).shape; torch.ones(2, dtype=torch.bfloat16)
torch.ones([2], requires_grad=True); torch.empty_strided((2, 3), (1, 2)).stride()
torch.empty_strided((2, 3), (1, 2)).shape; torch.empty_strided((2,), (1, 2))
torch.zeros_like(x); torch.zeros_like(x, dtype=torch.int64); torch.ones_like(g)
torch.ones_like(g, requires_grad=True); torch.full_like(x, 2); torch.empty_like(x).shape
torch.full_like(x, 1.5, dtype=torch.int64); torch.full_like(x, 'a'); torch.zeros_like([1])
torch.zeros_like(x, memory_format=torch.preserve_format).shape; torch.full_like(x, torch.tensor(3))
torch.zeros_like(x, device='cuda'); x.new_zeros(2); x.new_zeros((2,)); x.new_full((2,), 3)
x.new_ones(2, dtype=torch.int64); x.new_tensor([1, 2]); x.new_empty(2).shape
x.new_empty((2, 3)).shape; x.new_full((2,), 3, requires_grad=True); x.new_tensor(g)
x.long().new_full((2,), 1.5); x.long().new_tensor([1.5]); x.new_zeros(2, device='cuda')
x.new_full(2, 3); x.new_zeros(2.5); x.new_empty_strided((2, 3), (1, 2)).stride()
"""
RANGES = """
torch.arange(5); torch.arange(end=5); torch.arange(1, 4); torch.arange(start=1, end=4, step=2)
torch.arange(1, 2, 0.3); torch.arange(5.); torch.arange(5, dtype=torch.float16)
torch.arange(0, 1, 0); torch.arange(1); torch.arange(3, 1); torch.arange(3, 1, -1)
torch.arange(torch.inf); torch.arange(torch.nan); torch.arange(torch.tensor(3))
torch.arange(torch.tensor(3.)); torch.arange(0, 3, dtype=torch.int8); torch.arange(True)
torch.arange(300, dtype=torch.uint8)[-3:]; torch.arange(3, out=torch.empty(0)); torch.arange(0)
torch.arange(3, out=torch.empty(3, dtype=torch.int64)); torch.arange(3, requires_grad=True)
torch.arange(3., requires_grad=True); torch.arange(); torch.arange('a'); torch.arange(1, 2, 3, 4)
torch.arange(0, 2**63); torch.arange(-3.5, 2); torch.arange(0, 5, 1.5, dtype=torch.int64)
torch.arange(0.5, 3, dtype=torch.int64); torch.arange(1e-3, 1, 1e-1); torch.arange(0, 1, 0.1)
torch.arange(10, 0, -3, dtype=torch.bfloat16); torch.arange(0, -1.0, -0.25); torch.range(1, 4)
torch.range(1, 4, 0.5); torch.range(0, 3, dtype=torch.int64); torch.range(3); torch.range(3, 1)
torch.linspace(0, 1, 5); torch.linspace(0, 10, 5, dtype=torch.int64); torch.linspace(-1, 1, 1)
torch.linspace(0, 1, 0); torch.linspace(0, 1, steps=3); torch.linspace(0, 1, -1)
torch.linspace(0, 1); torch.linspace(0, 1, 2.5); torch.linspace(torch.tensor(0.), 1, 3)
torch.linspace(torch.tensor([0.]), 1, 3); torch.linspace(3, -10, 7, dtype=torch.int32)
torch.linspace(0, 1, 3, dtype=torch.float16); torch.linspace(1, 9, 4, dtype=torch.uint8)
torch.linspace(-3, 7, 11, dtype=torch.float64); torch.linspace(0, 1, 3, out=torch.empty(0))
torch.logspace(0, 2, 3); torch.logspace(0, 3, 4, base=2); torch.logspace(0.1, 1, 4)
torch.logspace(0, 3, 4, base=2, dtype=torch.int64); torch.logspace(0, 2, 1); torch.eye(2)
torch.logspace(0, 1e5, 3, dtype=torch.float16); torch.logspace(0, 5, 3, dtype=torch.float16)
torch.linspace(0, torch.inf, 3); torch.logspace(4.3, 0, 1, dtype=torch.bfloat16)
torch.eye(2, 3); torch.eye(3, 2, dtype=torch.int64); torch.eye(0); torch.eye(2, 0); torch.eye(-1)
torch.eye(2, -1); torch.eye(2.5); torch.eye(2, out=torch.empty(0)); torch.eye(2, requires_grad=True)
"""
HOST = """
np.float64(2) * torch.ones(2); np.float32(2) + torch.ones(2, dtype=torch.int64)
torch.ones(2) * np.float64(2); torch.ones(2, dtype=torch.int64) * np.float32(2)
np.int64(2) ** torch.ones(2); np.float64(2) < torch.ones(2); torch.ones(2) / np.int64(2)
np.int8(100) + torch.ones(2, dtype=torch.int8); torch.ones(2, dtype=torch.int8) + 300
torch.ones(2, dtype=torch.uint8) - 2; torch.ones(2, dtype=torch.uint8) * 2.5; x + np.ones(3)
torch.ByteTensor([200]) + torch.ByteTensor([100]); np.asarray(g); np.sin(x); np.maximum(x, 1)
np.concatenate([torch.ones(2), torch.ones(1)]); np.float64(torch.tensor(2.)); g.numpy()
x.numpy(force=True); g.numpy(force=True); x.bfloat16().tolist(); x.half().tolist(); x == np.ones(3)
torch.tensor(1.1, dtype=torch.bfloat16).item(); torch.tensor([[1, 2]]).tolist(); x.item()
torch.tensor(True).tolist(); torch.tensor(3.).tolist(); int(torch.tensor([3.7])); x.byte().tolist()
float(torch.tensor(3, dtype=torch.uint8)); bool(torch.tensor(0., dtype=torch.bfloat16))
[1, 2, 3][torch.tensor(1)]; [1, 2, 3][torch.tensor(1, dtype=torch.uint8)]; complex(x[0, 0])
[1, 2, 3][torch.tensor(True)]; [1, 2, 3][torch.tensor(1.)]; f"{torch.tensor(1.5):.2f}"
"%d" % torch.tensor(3); f"{torch.tensor([1.5]):.2f}"; f"{torch.tensor(3).byte():03d}"
reversed(torch.tensor([1, 2, 3])); 3 in torch.tensor([1, 2, 3]); x[0] in x; 'a' in x; len(x[0, 0])
list(torch.tensor([1, 2])); torch.tensor([1, 2]).__array__(np.float32); torch.from_dlpack([1])
np.array(torch.tensor([1, 2]), dtype=np.float32, copy=False); torch.from_dlpack(np.arange(3))
g.__dlpack__(); x.__dlpack_device__()[1]
torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(torch.ones(2)))
"""


def expressions(text: str) -> list[str]:
    return [each.strip() for line in text.strip().splitlines() for each in line.split(";")]


@pytest.mark.parametrize("expression", expressions(DATA + FILLED + RANGES + HOST))
def test_expressions(peer: Any, expression: str) -> None:
    peer.expression(expression)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("ends", [(0.1, 3.3, 5, 2.7), (-2.3, 1.7, 7, 10.0), (7.7, -1.1, 4, 2.0)])
def test_ends_of_a_narrow_range_are_numbers_of_its_dtype(peer: Any, dtype: str, ends: Any) -> None:
    first, last, steps, base = ends
    kind = getattr(peer.torch, dtype)
    ours = frontend.logspace(*ends, dtype=getattr(frontend, dtype)).double().numpy()
    theirs = peer.torch.logspace(*ends, dtype=kind).double().numpy()
    rounded = [float(peer.torch.tensor(x, dtype=kind)) for x in (first, last)]
    exact = base ** np.linspace(*rounded, steps)
    np.testing.assert_allclose(ours, exact, rtol=2**-8 if dtype == "bfloat16" else 2**-11)
    np.testing.assert_array_equal(ours[[0, -1]], theirs[[0, -1]])


# -- DLPack ----------------------------------------------------------------------------------------

DTYPES = ["float32", "float64", "float16", "bfloat16", "uint8", "int8", "int16", "int32", "int64",
          "bool"]  # fmt: skip


@pytest.mark.parametrize("capsule", [False, True], ids=["object", "capsule"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_is_shared_both_ways(peer: Any, dtype: str, capsule: bool) -> None:
    for source, taker in ((peer.torch, frontend), (frontend, peer.torch)):
        tensor = source.zeros(2, 3, dtype=getattr(source, dtype)).t()
        shared = source.utils.dlpack.to_dlpack(tensor) if capsule else tensor
        taken = taker.from_dlpack(shared)
        assert str(taken.dtype) == f"torch.{dtype}"
        assert tuple(taken.shape) == (3, 2) and tuple(taken.stride()) == (1, 3)
        tensor[2, 1] = 1
        assert taken.tolist() == [[0, 0], [0, 0], [0, 1]]
        taken[0, 0] = 1
        assert tensor[0, 0] == 1
        before = tensor.tolist()
        del tensor, shared
        gc.collect()
        assert taken.tolist() == before


def test_read_only_memory_stays_read_only(peer: Any) -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = frontend.from_dlpack(array)
    with pytest.raises(RuntimeError, match="the memory of this tensor is read-only"):
        tensor[0] = 1
    assert array[0] == 0

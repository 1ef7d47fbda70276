"""DLPack with NumPy, and of bfloat16, which NumPy does not know, with itself."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import frontend as torch
from frontend.utils.dlpack import from_dlpack, to_dlpack


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.uint8, torch.int16])
def test_numpy_takes_a_tensors_memory(dtype: torch.dtype) -> None:
    x = torch.zeros(2, 3, dtype=dtype)
    array = np.from_dlpack(x)
    x[1, 2] = 7
    assert array.dtype == dtype.numpy and array[1, 2] == 7
    assert x.__dlpack_device__() == (1, 0)


def test_bfloat16_goes_through() -> None:
    x = torch.tensor([[1.5, -2.0], [0.1, 3.0]], dtype=torch.bfloat16).t()
    for source in (x, to_dlpack(x), x.__dlpack__(max_version=(1, 0))):
        y = from_dlpack(source)
        assert y.dtype is torch.bfloat16 and y.tolist() == x.tolist()
        assert y.data_ptr() == x.data_ptr() and y.stride() == (1, 2)
    y[0, 0] = 5
    assert x[0, 0] == 5
    del x, source
    gc.collect()
    assert y[0, 0] == 5


def test_capsules_are_used_once_and_writable() -> None:
    x = torch.arange(4)
    capsule = to_dlpack(x)
    from_dlpack(capsule)[0] = 9
    assert x[0] == 9
    for used in (capsule, [1], None):
        with pytest.raises(RuntimeError, match="a DLPack capsule nobody has used"):
            from_dlpack(used)


def test_what_cannot_be_shared() -> None:
    with pytest.raises(BufferError, match=r"use tensor\.detach\(\)"):
        torch.ones(1, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="no streams"):
        torch.ones(1).__dlpack__(stream=3)
    assert from_dlpack(np.ones(1, np.uint32)).dtype is torch.uint32
    assert from_dlpack(torch.tensor([1j])).tolist() == [1j]
    with pytest.raises(BufferError, match="only supports signed/unsigned integers"):
        torch.zeros(1, dtype=torch.float8_e5m2).__dlpack__()
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    with pytest.raises(RuntimeError, match="the memory of this tensor is read-only"):
        from_dlpack(frozen)[0] = 1
    assert from_dlpack(frozen, copy=True).add_(1).tolist() == [1, 1]


class OnDevice:
    def __dlpack__(self, **_: object) -> object:
        raise AssertionError("not asked")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


def test_memory_elsewhere_is_refused() -> None:
    with pytest.raises(BufferError, match="DLPack's type 2, no CPU"):
        from_dlpack(OnDevice())

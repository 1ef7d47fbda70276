"""`torch.types`: names for annotations."""

import os
from collections.abc import Sequence
from typing import Any, Union

from frontend.engine.tensors.dtypes import Size, device, dtype, layout
from frontend.engine.tensors.tensor import Tensor

__all__ = ["Device", "FileLike", "Number", "Storage"]

Number = Union[int, float, bool]  # noqa: UP007 (users unpack it)
_Number = (bool, int, float)
_int, _float, _bool, _symint = int, float, bool, int
_dtype, _device, _layout = dtype, device, layout
_size = Union[Size, list[int], tuple[int, ...]]  # noqa: UP007
Device = Union[device, str, int, None]  # noqa: UP007
FileLike = Union[str, "os.PathLike[str]", Any]
_TensorOrTensors = Union[Tensor, Sequence[Tensor]]  # noqa: UP007
_TensorOrTensorsOrGradEdge = _TensorOrTensors
Storage = Any

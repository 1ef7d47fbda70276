"""Checkpoints as `save` wrote them before it wrote PyTorch's format; they are still read.

in : the bytes of a file
out: tensors, numbers, strings, None, bools, in any nesting of dict, OrderedDict, list and tuple

The format is a safetensors file (https://github.com/huggingface/safetensors) that any reader of
that format opens. Its tensors are named "0", "1", …. Its metadata holds "format": FORMAT, and
"structure": a JSON text in which each object is one of

    null, true, 1, 1.5, "text"            None, a bool, an int, a finite float, a string
    ["float", "inf"]                      a float that JSON has no number for ("-inf", "nan")
    ["list", [item, …]]                   also "tuple"
    ["dict", [[key, item], …]]            also "OrderedDict"; a key is one of the first two
    ["tensor", "0", false]                the tensor "0", and its requires_grad; also "parameter"

A tensor that stands in several places is stored once and loads as one shared memory.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import safetensors

from frontend.engine.tensors.tensor import Tensor, make
from frontend.nn.parameter import Parameter
from frontend.serialization.budget import Budget, without_bounds
from frontend.serialization.pickle_machine import put_items
from frontend.serialization.storages import with_plain_bools
from graphc.ir.types import DType, TensorType

FORMAT = "graphc.checkpoint.1"
_BYTES_OF_JSON = 24  # that a byte of it takes as objects
# A safetensors file names element types as we do, in capitals: "F32", "I64", "BOOL".
_TYPES = {dtype.value.upper(): dtype for dtype in DType}
_DICTS: dict[str, type] = {"dict": dict, "OrderedDict": OrderedDict}
_LISTS: dict[str, Callable[..., Any]] = {"list": list, "tuple": tuple}


def read(data: bytes, trusted: bool = False) -> Any:
    """The object in the bytes of a checkpoint. Raises ValueError and the like where they hold
    none; nothing is kept of what was read by then."""
    return _Reader(data, without_bounds() if trusted else Budget(len(data), 0)).read()


def array_of(stored: dict[str, Any], name: str) -> np.ndarray:
    """An array of its own from what `safetensors.deserialize` gives."""
    if stored["dtype"] not in _TYPES:
        raise ValueError(f"tensor {name} has the dtype {stored['dtype']}")
    dtype = _TYPES[stored["dtype"]].numpy
    data = bytearray(stored["data"])
    array = np.frombuffer(data, dtype) if data else np.empty(stored["shape"], dtype)
    return with_plain_bools(array).reshape(stored["shape"])


class _Reader:
    """Turns the bytes of a file into the object."""

    def __init__(self, data: bytes, budget: Budget):
        size = int.from_bytes(data[:8], "little")
        budget.program(min(size, len(data)))
        budget.spend(2 * size, _BYTES_OF_JSON * size)
        self.budget = budget
        self.stored = dict(safetensors.deserialize(data))
        metadata = json.loads(data[8 : 8 + size]).get("__metadata__") or {}
        if metadata.get("format") != FORMAT:
            name = metadata.get("format")
            raise ValueError(f"its format is {name!r}, not {FORMAT!r}")
        self.structure = json.loads(metadata["structure"])
        self._made: dict[Any, Tensor] = {}
        self._arrays: dict[str, np.ndarray] = {}

    def read(self) -> Any:
        return self.object(self.structure)

    def object(self, node: Any) -> Any:
        """The object a structure stands for."""
        if not isinstance(node, list):
            return node if not isinstance(node, dict) else _unknown(node)
        match node:
            case [("dict" | "OrderedDict") as kind, [*items]]:
                pairs = [part for key, item in items for part in (_key(key), self.object(item))]
                return put_items(_DICTS[kind](), pairs, self.budget)
            case [("list" | "tuple") as kind, [*items]]:
                return _LISTS[kind](self.object(item) for item in items)
            case ["float", _]:
                return _number(node)
            case [("tensor" | "parameter") as kind, str(name), bool(requires_grad)]:
                return self._tensor(kind, name, requires_grad)
        return _unknown(node)

    def _tensor(self, kind: str, name: str, requires_grad: bool) -> Tensor:
        key = (kind, name, requires_grad)
        if key not in self._made:
            array = self._array(name)
            tensor = make(array, TensorType.of(array))
            if kind == "parameter":
                tensor = Parameter(tensor, requires_grad and tensor.is_floating_point())
            elif requires_grad and tensor.is_floating_point():
                tensor.requires_grad_()
            self._made[key] = tensor
        return self._made[key]

    def _array(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            self._arrays[name] = array_of(self.stored[name], name)
        return self._arrays[name]


def _number(node: Any) -> float:
    match node:
        case ["float", ("inf" | "-inf" | "nan") as text]:
            return float(text)
    return _unknown(node)


def _key(node: Any) -> Any:
    if isinstance(node, list) and node[:1] == ["float"]:
        return _number(node)
    return node if not isinstance(node, list | dict) else _unknown(node)


def _unknown(node: Any) -> Any:
    raise ValueError(f"its structure holds the unknown item {str(node)[:80]}")

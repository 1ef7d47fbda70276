"""GGUF files as state dicts."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from frontend.engine.tensors.tensor import Tensor, make
from frontend.gguf.container import Entry, Header
from frontend.gguf.weights import QuantizedWeight, check_activations
from frontend.serialization.errors import CheckpointError, Refused
from graphc.ir.types import TensorType


def load(
    path: str | os.PathLike[str], quantized: bool = False, activations: str = "float32"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tensors of a GGUF file by name, and its metadata by key.

    F32, F16, BF16, F64 and integers keep their dtypes; Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K,
    IQ4_NL, IQ4_XS and MXFP4 are dequantized to float32, with the bits of the package `gguf`, or,
    with `quantized`, are QuantizedWeights: as they are, for products to unpack. `activations` says
    how these multiply: "float32", or "int8", which rounds inputs of linear layers to integers, is
    several times as fast and has no gradients (see QuantizedWeight). Shapes have rows last, as
    PyTorch has them (the file has them first). Values are numbers, bools, texts, lists of texts,
    and NumPy arrays. Raises CheckpointError for a file that is damaged or has other kinds, OSError
    for one that cannot be read, ValueError for other activations, or "int8" of tensors in floats.
    """
    check_activations(activations)
    if activations == "int8" and not quantized:
        raise ValueError('activations="int8" is for products of quantized weights: quantized=True')
    with open(path, "rb") as file:
        try:
            header = Header(file)
            state = {
                name: _read(entry, header.blocks(entry), activations if quantized else None)
                for name, entry in header.entries.items()
            }
        except Refused as error:
            name = os.fspath(path)
            raise CheckpointError(f"{name} is no GGUF file that is read: {error}") from error
    return state, header.metadata


def _read(entry: Entry, blocks: np.ndarray, activations: str | None) -> Tensor | QuantizedWeight:
    if activations is not None and entry.kind.unpack is not None:
        return QuantizedWeight(entry.kind.name, entry.shape, blocks, activations)
    numbers = entry.kind.numbers(blocks).reshape(entry.shape)
    return make(numbers, TensorType.of(numbers))

"""GGUF files written by hand, and blocks drawn for them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from frontend.gguf.kinds import Kind


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def value(key: str, type: int, data: bytes) -> bytes:
    return text(key) + struct.pack("<I", type) + data


def entry(name: str, shape: Sequence[int], kind: int, offset: int) -> bytes:
    """`shape` with rows last."""
    sizes = struct.pack(f"<{len(shape)}Q", *reversed(shape))
    return text(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, offset)


def whole(
    values: Sequence[bytes], entries: Sequence[bytes], data: bytes, alignment: int = 32,
    version: int = 3,
) -> bytes:  # fmt: skip
    head = b"GGUF" + struct.pack("<IQQ", version, len(entries), len(values))
    head += b"".join([*values, *entries])
    return head + bytes(-len(head) % alignment) + data


def write(path: Path, tensors: dict[str, tuple[int, Sequence[int], bytes]], *values: bytes) -> Path:
    """A file of tensors: kind, shape and bytes of each."""
    entries, data = [], b""
    for name, (kind, shape, content) in tensors.items():
        entries.append(entry(name, shape, kind, len(data)))
        data += content + bytes(-len(content) % 32)
    path.write_bytes(whole(values, entries, data))
    return path


SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
    "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0],
}  # fmt: skip
"""Where the blocks have float16."""


def drawn(kind: Kind, count: int, seed: int = 0) -> Any:
    """Valid blocks of any bits: float16 of all magnitudes, but finite. [count, bytes]"""
    random = np.random.Generator(np.random.PCG64(seed))
    blocks = random.integers(0, 256, (count, kind.bytes), dtype=np.uint8)
    for place in SCALES.get(kind.name, []):
        blocks[:, place + 1] &= 0xBF  # less than the greatest exponent
    if kind.name == "MXFP4":
        blocks[:, 0] = np.minimum(blocks[:, 0], 250)  # beyond, products are infinite
    if kind.dtype.is_float and kind.unpack is None:
        numbers = random.standard_normal((count, 1)).astype(kind.dtype.numpy)
        return numbers.view(np.uint8)
    return blocks

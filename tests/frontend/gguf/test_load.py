"""GGUF files: what is read of them, and that blocks are the numbers of the package `gguf`."""

from __future__ import annotations

import hashlib
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.gguf import load
from frontend.gguf.kinds import KINDS, OTHERS, Kind
from frontend.serialization import CheckpointError
from tests.frontend.gguf import files

QUANTIZED = [kind for kind in KINDS.values() if kind.unpack is not None]

DIGESTS = {
    "Q4_0": "1f1793554beda378", "Q4_1": "972cf7cd6a7f0bb0", "Q5_0": "3490a015e485590f",
    "Q5_1": "1d0302b0a40df2c6", "Q8_0": "0f52ed6c1f94a2fc", "Q2_K": "82a76c946d7f4f13",
    "Q3_K": "8da8d2f4734b4988", "Q4_K": "7a29fc56430aab62", "Q5_K": "c24d118e16620c0c",
    "Q6_K": "94731b2874161686", "IQ4_NL": "06424957174f3bb2", "IQ4_XS": "d3895bedf2486559",
    "MXFP4": "c53f4093aea4c6f5",
}  # fmt: skip
"""Of what the package gguf 0.19 makes of 257 drawn blocks."""


def digest(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("kind", QUANTIZED, ids=lambda kind: kind.name)
def test_blocks_are_the_numbers_of_the_package(kind: Kind) -> None:
    blocks = files.drawn(kind, 257)
    numbers = kind.numbers(blocks)
    assert numbers.dtype == np.float32 and numbers.shape == (257, kind.elements)
    assert np.isfinite(numbers).all() and np.unique(numbers).size > 257
    assert digest(numbers) == DIGESTS[kind.name]


@pytest.mark.parametrize("kind", QUANTIZED, ids=lambda kind: kind.name)
def test_the_package_itself(kind: Kind) -> None:
    quants = pytest.importorskip("gguf.quants")
    type = quants.GGMLQuantizationType[kind.name]
    assert type == kind.code and quants.GGML_QUANT_SIZES[type] == (kind.elements, kind.bytes)
    for blocks in (files.drawn(kind, 5000, 1), np.full((1, kind.bytes), 255, np.uint8)):
        with np.errstate(all="ignore"):
            expected = quants.dequantize(blocks, type)
        np.testing.assert_array_equal(kind.numbers(blocks).view("i4"), expected.view("i4"))


def test_a_file_of_the_package(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    path = tmp_path / "x.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(77)
    writer.add_token_list(["a", "ü"])
    writer.add_array("scores", [0.5, 1.5])
    x = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    writer.add_tensor("plain", x)
    packed = gguf.quants.quantize(x, gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("packed", packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    for step in ("header", "kv_data", "tensors"):
        getattr(writer, f"write_{step}_to_file")()
    writer.close()
    state, metadata = load(path)
    assert metadata["general.architecture"] == "llama" and metadata["llama.context_length"] == 77
    assert metadata["tokenizer.ggml.tokens"] == ["a", "ü"]
    assert metadata["scores"].tolist() == [0.5, 1.5]
    np.testing.assert_array_equal(state["plain"].numpy(), x)
    expected = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType.Q8_0)
    np.testing.assert_array_equal(state["packed"].numpy(), expected)


def test_tensors_of_all_kinds_and_values_of_all_types(tmp_path: Path) -> None:
    blocks = {kind.name: files.drawn(kind, 6) for kind in KINDS.values()}
    tensors = {
        kind.name: (kind.code, (2, 3 * kind.elements), blocks[kind.name].tobytes())
        for kind in KINDS.values()
    }
    values = {
        "u8": (0, "B", 200), "i8": (1, "b", -3), "u16": (2, "H", 60000), "i16": (3, "h", -300),
        "u32": (4, "I", 1 << 31), "i32": (5, "i", -5), "f32": (6, "f", 0.5), "bool": (7, "?", True),
        "u64": (10, "Q", 1 << 63), "i64": (11, "q", -(1 << 62)), "f64": (12, "d", 0.1),
    }  # fmt: skip
    written = [files.value(k, t, struct.pack("<" + c, v)) for k, (t, c, v) in values.items()]
    written.append(files.value("text", 8, files.text("ü")))
    texts = struct.pack("<IQ", 8, 2) + files.text("a") + files.text("")
    written.append(files.value("texts", 9, texts))
    written.append(files.value("bools", 9, struct.pack("<IQ3B", 7, 3, 0, 1, 2)))
    written.append(files.value("numbers", 9, struct.pack("<IQ2h", 3, 2, -1, 300)))
    state, metadata = load(files.write(tmp_path / "x.gguf", tensors, *written))
    assert list(state) == list(tensors)
    for kind in KINDS.values():
        tensor = state[kind.name]
        assert tensor.dtype is kind.dtype and tensor.shape == (2, 3 * kind.elements)
        expected = kind.numbers(blocks[kind.name]).reshape(2, -1)
        assert tensor.numpy().tobytes() == expected.tobytes()
        tensor.zero_()  # memory of its own
    assert {key: metadata[key] for key in values} == {key: v for key, (_, _, v) in values.items()}
    assert metadata["bool"] is True and metadata["text"] == "ü" and metadata["texts"] == ["a", ""]
    assert metadata["bools"].tolist() == [False, True, True]
    assert metadata["numbers"].tolist() == [-1, 300]


def test_a_scalar_and_a_second_alignment(tmp_path: Path) -> None:
    values = [files.value("general.alignment", 4, struct.pack("<I", 64))]
    entries = [files.entry("a", (), 0, 0), files.entry("b", (2,), 0, 64)]
    data = struct.pack("<f", 7.0).ljust(64, b"\0") + struct.pack("<2f", 1, 2)
    path = tmp_path / "x.gguf"
    path.write_bytes(files.whole(values, entries, data, alignment=64, version=2))
    state, _ = load(path)
    assert state["a"].shape == () and state["a"].item() == 7 and state["b"].tolist() == [1, 2]


# -- hostile files ---------------------------------------------------------------------------------


def good() -> bytes:
    values = [
        files.value("general.architecture", 8, files.text("llama")),
        files.value("tokens", 9, struct.pack("<IQ", 8, 2) + files.text("ab") + files.text("c")),
        files.value("scores", 9, struct.pack("<IQ2f", 6, 2, 1, 2)),
    ]
    entries = [files.entry("w", (2, 32), 8, 0), files.entry("b", (2,), 0, 96)]
    return files.whole(values, entries, bytes(68).ljust(96, b"\0") + struct.pack("<2f", 1, 2))


def one(name: str, shape: tuple[int, ...], kind: int, offset: int, room: int = 256) -> bytes:
    return files.whole([], [files.entry(name, shape, kind, offset)], bytes(room))


def of_values(*values: bytes) -> bytes:
    return files.whole(list(values), [], b"")


HUGE = 1 << 60
HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "does not begin with GGUF"),
    "another format": (b"PK\3\4" + bytes(99), "does not begin with GGUF"),
    "version 1": (files.whole([], [], b"", version=1), "version 1: those that are read are 2"),
    "big-endian": (b"GGUF\0\0\0\3" + bytes(16), "big-endian"),
    "many tensors": (
        b"GGUF" + struct.pack("<IQQ", 3, HUGE, 0), f"declares {HUGE:,} tensors where 0 bytes"
    ),
    "many values": (b"GGUF" + struct.pack("<IQQ", 3, 0, HUGE), "values where 0 bytes are left"),
    "a long key": (
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, HUGE) + bytes(99), "bytes of a key where 99"
    ),
    "a long text": (of_values(files.value("k", 8, struct.pack("<Q", HUGE))), "of the value of 'k'"),
    "a long array": (
        of_values(files.value("k", 9, struct.pack("<IQ", 10, HUGE))), "numbers in the value of 'k'"
    ),
    "many texts": (
        of_values(files.value("k", 9, struct.pack("<IQ", 8, HUGE))), "texts in the value of 'k'"
    ),
    "arrays in arrays": (
        of_values(files.value("k", 9, struct.pack("<IQ", 9, 1) + bytes(12))), "array of the type 9"
    ),
    "an unknown type": (of_values(files.value("k", 77, bytes(8))), "of the type 77"),
    "no UTF-8": (of_values(files.value("k", 8, files.text(b"\xff"))), "is no UTF-8"),
    "a key twice": (of_values(*[files.value("k", 0, b"1")] * 2), "'k' stands there twice"),
    "alignment 0": (
        of_values(files.value("general.alignment", 4, bytes(4))), "alignment is 0: that is to be"
    ),
    "alignment 3": (
        of_values(files.value("general.alignment", 4, struct.pack("<I", 3))), "a power of two"
    ),
    "an alignment in words": (
        of_values(files.value("general.alignment", 8, files.text("x" * 99))), "alignment is xxxx"
    ),
    "an alignment beyond the file": (
        files.whole([files.value("general.alignment", 10, struct.pack("<Q", 1 << 63))],
                    [files.entry("w", (2,), 0, 0)], bytes(99)), "the file at"
    ),
    "a name twice": (
        files.whole([], [files.entry("w", (8,), 0, 0), files.entry("w", (8,), 0, 32)], bytes(64)),
        "'w' stands there twice",
    ),
    "tensors that overlap": (
        files.whole([], [files.entry("v", (9,), 0, 0), files.entry("w", (8,), 0, 32)], bytes(64)),
        "'w' overlaps the tensor 'v'",
    ),
    "tensors in one place": (
        files.whole([], [files.entry(str(i), (64,), 0, 0) for i in range(99)], bytes(256)),
        "'1' overlaps the tensor '0'",
    ),
    "beyond the end": (one("w", (64,), 0, 32), "ends at"),
    "far beyond the end": (one("w", (8,), 0, (1 << 64) - 32), "ends at"),
    "more than there is": (one("w", (65,), 0, 0), "ends at"),
    "a product that overflows": (one("w", (1 << 32, 1 << 32), 0, 0), "ends at"),
    "no multiple of the alignment": (one("w", (8,), 0, 4), "no multiple of 32"),
    "no elements": (one("w", (0, HUGE), 0, 0), "has no elements"),
    "five axes": (one("w", (1,) * 5, 0, 0), "has 5 axes"),
    "many axes": (
        b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + files.text("w") + b"\xff" * 64, "axes"
    ),
    "half a block": (one("w", (2, 16), 8, 0), "rows of 16 elements: they come in blocks of 32"),
    "a scalar of blocks": (one("w", (), 8, 0), "rows of 1 elements"),
    "an unknown kind": (one("w", (32,), 4, 0), "of the kind 4, which is not read"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(name: str, tmp_path: Path) -> None:
    data, words = HOSTILE[name]
    path = tmp_path / "x.gguf"
    path.write_bytes(data)
    for quantized in (False, True):
        with pytest.raises(CheckpointError, match=words) as caught:
            load(path, quantized=quantized)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("code", OTHERS)
def test_other_kinds_are_refused_by_name(code: int, tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(one("w", (256,), code, 0))
    with pytest.raises(CheckpointError, match=f"kind {OTHERS[code]}, which .* quantize the model"):
        load(path)


def test_every_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    data = good()
    path.write_bytes(data)
    assert load(path)[0]["b"].tolist() == [1, 2]
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match="is no GGUF file that is read"):
            load(path)


def test_changed_files_load_or_are_refused(tmp_path: Path) -> None:
    """Any byte or eight of them changed: an error that tells, or tensors of the file's size."""
    random, path, data = np.random.default_rng(0), tmp_path / "x.gguf", good()
    refused = 0
    for i in range(600):
        changed = bytearray(data)
        place = int(random.integers(4, len(data) - 8))
        if i % 2:
            changed[place] = int(random.integers(256))
        else:
            changed[place : place + 8] = struct.pack("<Q", int(random.choice([2**63, 2**31, 7, 0])))
        path.write_bytes(changed)
        try:
            state, _ = load(path)
        except CheckpointError:
            refused += 1
            with pytest.raises(CheckpointError, match="is no GGUF file that is read"):
                load(path, quantized=True)
        else:
            assert sum(each.numel() for each in state.values()) <= 13 * len(data)
            kept, _ = load(path, quantized=True)
            assert sum(each.nbytes for each in kept.values()) <= 4 * len(data)
    assert 200 < refused < 600


def test_refusing_takes_no_memory_of_what_is_declared(tmp_path: Path) -> None:
    """Counts of 2^40 bytes and more would not fit; what fits is not asked for either."""
    path = tmp_path / "x.gguf"
    path.write_bytes(one("w", (1 << 28,), 0, 0))
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="ends at"):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_its_name() -> None:
    assert torch.gguf.load is load

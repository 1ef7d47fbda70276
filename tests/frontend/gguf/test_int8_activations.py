"""Linear layers with GGUF's weights whose inputs are rounded to int8 in blocks: the declared bits,
eager and compiled, how far off floats they are, and what is refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.gguf import QuantizedWeight, assign, load
from frontend.gguf.block_product import in_quads, out_of_quads, quantized_rows
from frontend.gguf.kinds import KINDS, Kind
from frontend.nn import functional as F
from graphc.ops.kinds.numpy_fma import fma32
from tests.frontend.gguf import files

Array = np.ndarray[Any, Any]
QUANTIZED = [kind for kind in KINDS.values() if kind.unpack is not None]
ROWS, COLUMNS = 96, 512
OF_16 = ("Q2_K", "Q3_K", "Q6_K")
"""Kinds with a scale for every 16 elements."""


def blocks_of(kind: Kind, rows: int = ROWS, columns: int = COLUMNS) -> Array:
    blocks = files.drawn(kind, rows * columns // kind.elements)
    # of float16's exponents those that leave sums finite
    for place in files.SCALES.get(kind.name, []):
        blocks[:, place + 1] = blocks[:, place + 1] & 0x83 | 0x20
    if kind.name == "MXFP4":
        blocks[:, 0] = 120
    return blocks


def weight_of(kind: Kind, rows: int = ROWS, columns: int = COLUMNS) -> QuantizedWeight:
    blocks = blocks_of(kind, rows, columns)
    return QuantizedWeight(kind.name, (rows, columns), blocks, activations="int8")


def named(name: str) -> Kind:
    return next(kind for kind in QUANTIZED if kind.name == name)


def rounded(x: Array, block: int) -> tuple[Array, Array]:
    """Rows in int8 and the scales of blocks, as they are declared."""
    apart = x.reshape(len(x), -1, block)
    scale = np.abs(apart).max(axis=2) / np.float32(127)
    with np.errstate(all="ignore"):
        ratio = apart / scale[..., None]
    whole = np.clip(np.rint(np.nan_to_num(ratio)), -127, 127).astype(np.int64)
    return whole, scale


def declared(kind: Kind, blocks: Array, x: Array) -> tuple[Array, Array, Array]:
    """The product by the kind's integers and scales, block after block in float32; in float64; and
    how far off that the roundings of float32 may be."""
    block = 16 if kind.name in OF_16 else 32
    whole, x_scale = rounded(x, block)
    scales, leasts, integers = [], [], []
    for parts in kind.parts(blocks):
        integers.append(parts.whole.reshape(-1, block).astype(np.int64) - kind.offset)
        groups = integers[-1].shape[0] // len(parts.scale)
        scale = np.repeat(parts.scale.astype(np.float32), groups, axis=1)
        scales.append(scale if parts.scales is None else scale * parts.scales.astype(np.float32))
        least = np.zeros_like(scales[-1])
        if parts.minimum is not None:
            least = np.repeat(parts.minimum.astype(np.float32), groups, axis=1)
            least = least if parts.minimums is None else least * -parts.minimums.astype(np.float32)
        leasts.append(least)
    w = np.concatenate(integers).reshape(ROWS, -1, block)
    scale, least = (np.concatenate(each).reshape(ROWS, -1) for each in (scales, leasts))
    total = np.zeros((len(x), ROWS), np.float32)
    exact, error = np.zeros(total.shape), np.zeros(total.shape)
    has_least = bool(np.any(least))
    for b in range(x_scale.shape[1]):
        sums, own = whole[:, b] @ w[:, b].T, whole[:, b].sum(axis=1, keepdims=True)
        term = sums.astype(np.float32) * scale[:, b]
        of_x = np.broadcast_to(x_scale[:, b, None], total.shape)
        if has_least:
            both = np.broadcast_to(least[:, b], total.shape), np.broadcast_to(own, total.shape)
            term = fma32(both[0], both[1].astype(np.float32), term)
        total = fma32(term, of_x, total)
        parts64 = sums * scale[:, b].astype(np.float64), own * least[:, b].astype(np.float64)
        exact += (parts64[0] + parts64[1]) * of_x
        error += (np.abs(parts64[0]) + np.abs(parts64[1])) * of_x
    return total, exact, error * (x_scale.shape[1] + 2) * 2.0**-24


@pytest.mark.parametrize("kind", QUANTIZED, ids=lambda kind: kind.name)
def test_products_have_the_declared_bits(kind: Kind) -> None:
    weight = weight_of(kind)
    torch.manual_seed(0)
    few, many = torch.randn(1, COLUMNS), torch.randn(3, 5, COLUMNS) * 40
    bias = torch.randn(ROWS)

    def reads(few: Any, many: Any) -> tuple[Any, Any]:
        return F.linear(few, weight), F.linear(many, weight, bias)

    compiled = torch.compile(reads, fullgraph=True)
    with torch.no_grad():
        for run in (reads, compiled, compiled, compiled):
            for own, x, more in zip(run(few, many), (few, many), (0, bias.numpy()), strict=True):
                rows = x.numpy().reshape(-1, COLUMNS)
                want, exact, bound = declared(kind, blocks_of(kind), rows)
                np.testing.assert_array_equal(own.numpy().reshape(want.shape), want + more)
                assert (np.abs(want - exact) <= bound).all()


@pytest.mark.parametrize("kind", QUANTIZED, ids=lambda kind: kind.name)
def test_all_else_is_exact(kind: Kind) -> None:
    """The tensor in floats and its rows, in no more memory; and products are off by roundings of
    inputs alone: half a step of 127 of each block."""
    weight, floats = weight_of(kind), kind.numbers(blocks_of(kind)).reshape(ROWS, COLUMNS)
    other = QuantizedWeight(kind.name, (ROWS, COLUMNS), blocks_of(kind))
    assert weight.nbytes == other.nbytes
    np.testing.assert_array_equal(weight.dequantize().numpy(), floats)
    ids = torch.tensor([[5, 95, 0]])
    compiled = torch.compile(lambda ids: F.embedding(ids, weight), fullgraph=True)
    for rows in (F.embedding(ids, weight), compiled(ids), compiled(ids)):
        np.testing.assert_array_equal(rows.numpy(), floats[ids.numpy()])
    x = np.random.default_rng(0).standard_normal((7, COLUMNS)).astype(np.float32)
    block = 16 if kind.name in OF_16 else 32
    steps = np.abs(x.reshape(7, -1, block)).max(axis=2, keepdims=True) / 127
    most = np.broadcast_to(steps * 0.5001, (7, COLUMNS // block, block)).reshape(x.shape)
    own = F.linear(torch.tensor(x), weight).numpy()
    exact = x.astype(np.float64) @ floats.T.astype(np.float64)
    size = np.abs(x) @ np.abs(floats.T)
    assert (np.abs(own - exact) <= most @ np.abs(floats.T) + 2e-5 * size).all()


@pytest.mark.parametrize("rows", [1, 7, 16, 72, 130])
@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "Q5_1"])
def test_any_number_of_rows(name: str, rows: int) -> None:
    weight = weight_of(named(name), rows, 64)
    floats = weight.dequantize()
    np.testing.assert_array_equal(weight.rows(torch.tensor(rows - 1)).numpy(), floats[-1].numpy())
    compiled = torch.compile(lambda x: F.linear(x, weight), fullgraph=True)
    with torch.no_grad():
        for count in (1, 2, 33):
            x = torch.randn(count, 64)
            own = compiled(x).numpy()
            np.testing.assert_array_equal(own, F.linear(x, weight).numpy())
            each = np.concatenate([F.linear(row[None], weight).numpy() for row in x])
            np.testing.assert_array_equal(own, each)


def test_inputs_of_any_number_of_rows() -> None:
    weight = weight_of(named("Q4_K"))
    compiled = torch.compile(lambda x: F.linear(x, weight), fullgraph=True)
    with torch.no_grad():
        for count in (3, 7, 12):
            x = torch.randn(count, COLUMNS)
            torch._dynamo.mark_dynamic(x, 0)
            np.testing.assert_array_equal(compiled(x).numpy(), F.linear(x, weight).numpy())
    assert "3 calls at 3 sizes" in str(compiled.explain())


def test_rows_are_rounded_block_by_block() -> None:
    x = np.random.default_rng(1).standard_normal((3, 96)).astype(np.float32)
    x[0, :32] = 0
    x[1, 32:64] = np.linspace(-1, 1, 32) * 1e-44  # denormal
    x[2] *= 1e30
    whole, scale = quantized_rows(torch.tensor(x), 32)
    want, scales = rounded(x, 32)
    assert whole.dtype is torch.int8
    np.testing.assert_array_equal(whole.numpy(), want.reshape(3, 96))
    np.testing.assert_array_equal(scale.numpy(), scales)
    assert not whole.numpy()[0, :32].any() and np.abs(whole.numpy()).max() == 127


def test_what_is_not_finite_stays_so() -> None:
    weight = weight_of(named("Q8_0"), 16, 64)
    x = torch.ones(4, 64)
    x[1, 40], x[2, 3], x[3, 3] = np.nan, np.inf, -np.inf
    compiled = torch.compile(lambda x: F.linear(x, weight), fullgraph=True)
    with torch.no_grad():
        for own in (F.linear(x, weight).numpy(), compiled(x).numpy()):
            assert np.isfinite(own[0]).all()
            assert not np.isfinite(own[1:]).any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_results_have_the_inputs_dtype(dtype: Any) -> None:
    weight = weight_of(named("Q4_0"), 16, 64)
    x = torch.randn(3, 64).to(dtype)
    own = F.linear(x, weight)
    assert own.dtype is dtype
    want = F.linear(x.to(torch.float32), weight).to(dtype)
    np.testing.assert_array_equal(own.to(torch.float64).numpy(), want.to(torch.float64).numpy())


def test_bits_in_quads_come_apart() -> None:
    whole = np.random.default_rng(0).integers(0, 16, (3, 64)).astype(np.uint8)
    for bits in (1, 2, 4):
        low = whole & (2**bits - 1)
        packed = in_quads(whole, bits)
        assert packed.shape == (3, 8 * bits)
        np.testing.assert_array_equal(out_of_quads(torch.tensor(packed), bits).numpy(), low)


@pytest.mark.parametrize("name", ["Q8_0", "Q4_K", "Q6_K"])
@pytest.mark.parametrize("rows", [1, 12])
@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_nothing_but_the_weight_is_stored(name: str, rows: int, limit: int) -> None:
    """Neither floats nor integers of all elements nor scales of all blocks: whether weights may be
    packed or not, they are read where they lie."""
    weight, before = weight_of(named(name), 192), torch.compiler.get_packing_limit()
    compiled = torch.compile(lambda x: F.linear(x, weight), fullgraph=True)
    torch.compiler.set_packing_limit(limit)
    try:
        with torch.no_grad():
            for _ in range(3):
                compiled(torch.randn(rows, COLUMNS))
    finally:
        torch.compiler.set_packing_limit(before)
    assert "packed as" not in str(compiled.explain())
    ((specialization,),) = (compiled.specializations,)
    parts = {part.nbytes for part in weight.buffers()}
    for executable in specialization.executables:
        for buffer in executable.plan.buffers:
            nbytes = buffer.type.nbytes
            assert nbytes in parts or nbytes <= 4 * rows * COLUMNS


# -- layers, files ---------------------------------------------------------------------------------


def test_layers_and_states_have_it() -> None:
    weight = weight_of(named("Q4_1"))
    model = nn.Sequential(nn.Embedding(ROWS, COLUMNS), nn.Linear(COLUMNS, ROWS, bias=False))
    assign(model, {"0.weight": weight, "1.weight": weight})
    ids = torch.tensor([3, 95])
    with torch.no_grad():
        want = F.linear(F.embedding(ids, weight), weight).numpy()
        np.testing.assert_array_equal(model(ids).numpy(), want)
        again = QuantizedWeight("Q4_1", (ROWS, COLUMNS), activations="int8")
        again.load_state_dict(weight.state_dict())
        for other in (again, copy.deepcopy(weight)):
            np.testing.assert_array_equal(F.linear(F.embedding(ids, other), other).numpy(), want)
    with pytest.raises(RuntimeError, match="size mismatch for whole"):
        QuantizedWeight("Q4_1", (ROWS, COLUMNS)).load_state_dict(weight.state_dict())
    assert repr(weight) == "QuantizedWeight(Q4_1, [96, 512], activations='int8')"


def test_files_are_loaded_so(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    kind = named("Q8_0")
    files.write(path, {"w": (kind.code, (4, 64), blocks_of(kind, 4, 64).tobytes())})
    state, _ = load(path, quantized=True, activations="int8")
    assert state["w"].activations == "int8"
    plain, _ = load(path)
    np.testing.assert_array_equal(state["w"].dequantize().numpy(), plain["w"].numpy())
    with pytest.raises(ValueError, match="activations are float32 or int8, not 'int4'"):
        load(path, quantized=True, activations="int4")
    with pytest.raises(ValueError, match="quantized=True"):
        load(path, activations="int8")


def test_what_is_refused() -> None:
    weight = weight_of(named("Q4_0"), 16, 64)
    x = torch.randn(2, 64, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"it has no gradient: compute under\s+torch.no_grad"):
        F.linear(x, weight)
    with torch.no_grad():
        assert F.linear(x, weight).shape == (2, 16)
    with pytest.raises(RuntimeError, match=r"linear of \[2, 32\] with a weight \[16, 64\]"):
        F.linear(torch.ones(2, 32), weight)
    with pytest.raises(ValueError, match="activations are float32 or int8, not 'int16'"):
        QuantizedWeight("Q4_0", (16, 64), activations="int16")

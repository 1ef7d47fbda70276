"""Weights that stay as a GGUF file has them: bits, memory, layers, and what is refused."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.gguf import QuantizedWeight, assign, load
from frontend.gguf.kinds import KINDS, Kind
from frontend.nn import functional as F
from graphc.ir.types import DType
from tests.frontend.gguf import files

QUANTIZED = [kind for kind in KINDS.values() if kind.unpack is not None]
ROWS, COLUMNS = 96, 512
BYTES = {
    "Q2_K": 1.2, "Q3_K": 1.04, "Q4_K": 1.03, "Q5_K": 1.03, "IQ4_NL": 1.9, "IQ4_XS": 2,
    "MXFP4": 2.2,
}  # fmt: skip
"""Of the bytes in the file, at most so many times; all others as many."""


def weight_of(kind: Kind, rows: int = ROWS, columns: int = COLUMNS) -> tuple[QuantizedWeight, Any]:
    """A drawn one, and what it stands for."""
    blocks = files.drawn(kind, rows * columns // kind.elements)
    # of float16's exponents those that leave sums finite
    for place in files.SCALES.get(kind.name, []):
        blocks[:, place + 1] = blocks[:, place + 1] & 0x83 | 0x20
    if kind.name == "MXFP4":
        blocks[:, 0] = 120
    return QuantizedWeight(kind.name, (rows, columns), blocks), torch.tensor(
        kind.numbers(blocks).reshape(rows, columns)
    )


def q4_0(rows: int = ROWS, columns: int = COLUMNS) -> tuple[QuantizedWeight, Any]:
    return weight_of(next(kind for kind in QUANTIZED if kind.name == "Q4_0"), rows, columns)


@pytest.mark.parametrize("kind", QUANTIZED, ids=lambda kind: kind.name)
def test_products_and_rows_have_the_bits_of_floats(kind: Kind) -> None:
    weight, floats = weight_of(kind)
    in_file = ROWS * COLUMNS // kind.elements * kind.bytes
    assert weight.nbytes <= BYTES.get(kind.name, 1) * in_file
    np.testing.assert_array_equal(weight.dequantize().numpy(), floats.numpy())
    torch.manual_seed(0)
    few, many, ids = torch.randn(1, COLUMNS), torch.randn(3, 5, COLUMNS), torch.tensor([[5, 95, 0]])

    def reads(few: Any, many: Any, ids: Any) -> tuple[Any, Any, Any]:
        return F.linear(few, weight), F.linear(many, weight), F.embedding(ids, weight)

    compiled = torch.compile(reads, fullgraph=True)
    with torch.no_grad():
        want = F.linear(few, floats), F.linear(many, floats), F.embedding(ids, floats)
        assert np.isfinite(want[1].numpy()).all()
        for run in (reads, compiled, compiled, compiled):
            for own, other in zip(run(few, many, ids), want, strict=True):
                np.testing.assert_array_equal(own.numpy(), other.numpy())


@pytest.mark.parametrize("rows", [1, 7, 16, 72, 130])
def test_any_number_of_rows(rows: int) -> None:
    weight, floats = q4_0(rows, 64)
    assert rows % weight.tile == 0
    np.testing.assert_array_equal(weight.dequantize().numpy(), floats.numpy())
    np.testing.assert_array_equal(weight.rows(torch.tensor(rows - 1)).numpy(), floats[-1].numpy())
    x = torch.randn(2, 64)
    compiled = torch.compile(lambda x: F.linear(x, weight), fullgraph=True)
    with torch.no_grad():
        np.testing.assert_array_equal(compiled(x).numpy(), F.linear(x, floats).numpy())


def test_blocks_of_more_axes() -> None:
    weight, floats = q4_0(12, 64)
    stacked = QuantizedWeight("Q4_0", (3, 4, 64))
    stacked.load_state_dict(weight.state_dict())
    assert stacked.ndim == 3 and stacked.numel() == 12 * 64 and stacked.size(1) == 4
    np.testing.assert_array_equal(stacked.dequantize().numpy(), floats.reshape(3, 4, 64).numpy())
    with pytest.raises(TypeError, match=r"linear takes a matrix: this Q4_0 is \[3, 4, 64\]"):
        F.linear(torch.ones(64), stacked)


@pytest.fixture
def unpacked() -> Iterator[None]:
    before = torch.compiler.get_packing_limit()
    torch.compiler.set_packing_limit(0)
    yield
    torch.compiler.set_packing_limit(before)


@pytest.mark.usefixtures("unpacked")
@pytest.mark.parametrize("name", ["Q8_0", "Q4_0", "Q4_K", "Q6_K"])
@pytest.mark.parametrize("rows", [1, 12])
@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_nothing_stores_the_floats(name: str, rows: int, limit: int) -> None:
    kind = next(kind for kind in QUANTIZED if kind.name == name)
    weight, floats = weight_of(kind, 192)
    compiled = torch.compile(lambda x: F.linear(x, weight), fullgraph=True)
    x = torch.randn(rows, COLUMNS)
    torch.compiler.set_packing_limit(limit)
    with torch.no_grad():
        for _ in range(3):
            got = compiled(x)
        np.testing.assert_array_equal(got.numpy(), F.linear(x, floats).numpy())
    assert ("packed as" in str(compiled.explain())) == (limit > 0)
    ((specialization,),) = (compiled.specializations,)
    plans = [executable.plan for executable in specialization.executables]
    size = 192 * COLUMNS
    for plan in plans:
        assert plan.arena_bytes < size  # scales of all groups at most
        assert all(
            buffer.type.dtype.itemsize == 1 or buffer.type.numel * 8 <= size
            for buffer in plan.buffers
        )


@pytest.mark.usefixtures("unpacked")
@pytest.mark.parametrize("name", ["Q8_0", "Q4_0"])
def test_a_tied_head_stores_no_floats_either(name: str) -> None:
    """Where rows are taken from what a product reads, too."""
    weight, floats = weight_of(next(kind for kind in QUANTIZED if kind.name == name), 192, 64)
    ids = torch.tensor([[3, 191]])
    compiled = torch.compile(
        lambda ids: F.linear(F.embedding(ids, weight)[:, -1], weight), fullgraph=True
    )
    with torch.no_grad():
        got = compiled(ids)
        want = F.linear(F.embedding(ids, floats)[:, -1], floats)
        np.testing.assert_array_equal(got.numpy(), want.numpy())
    ((specialization,),) = (compiled.specializations,)
    (executable,) = specialization.executables
    assert all(
        buffer.type.dtype.itemsize == 1 or buffer.type.numel < 192 * 64
        for buffer in executable.plan.buffers
    )


# -- models ----------------------------------------------------------------------------------------


class Model(nn.Module):
    """Scores of the next of 96 tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(ROWS, COLUMNS)
        self.norm = nn.LayerNorm(COLUMNS)
        self.head = nn.Linear(COLUMNS, ROWS)

    def forward(self, ids: Any) -> Any:
        return self.head(self.norm(self.tokens(ids)))


def filled() -> tuple[Any, Any]:
    """A model of quantized weights, and one of floats."""
    torch.manual_seed(0)
    floats = Model()
    weight, wide = q4_0()
    state = floats.state_dict()
    with torch.device("meta"):
        model = Model()
    assign(model, {**state, "tokens.weight": weight, "head.weight": weight})
    floats.load_state_dict({**state, "tokens.weight": wide, "head.weight": wide})
    return model, floats


def test_a_model_computes_with_them(tmp_path: Path) -> None:
    model, floats = filled()
    ids = torch.tensor([[1, 50, 95]])
    want = floats(ids).detach().numpy()
    assert isinstance(model.head.weight, QuantizedWeight) and model.tokens.weight.kind == "Q4_0"
    for each in (model, torch.compile(model, fullgraph=True), copy.deepcopy(model)):
        np.testing.assert_array_equal(each(ids).detach().numpy(), want)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other, _ = filled()
    for parameter in (*other.parameters(), *other.buffers()):
        parameter.data.zero_()
    other.load_state_dict(torch.load(tmp_path / "model.pt"))
    np.testing.assert_array_equal(other(ids).detach().numpy(), want)


def test_casts_leave_scales_as_they_are() -> None:
    weight, floats = q4_0()
    assert weight.to(torch.bfloat16).scale.dtype is DType.f16
    np.testing.assert_array_equal(weight.double().dequantize().numpy(), floats.numpy())
    for dtype in (torch.bfloat16, torch.float64):
        x = torch.randn(3, COLUMNS).to(dtype)
        own, other = F.linear(x, weight), F.linear(x, floats.to(dtype))
        assert own.dtype is dtype and torch.equal(own, other)


def test_gradients_pass_through() -> None:
    weight, floats = q4_0()
    gradients = []
    for each in (weight, floats):
        x, bias = torch.ones(2, COLUMNS, requires_grad=True), torch.zeros(ROWS, requires_grad=True)
        (F.linear(x, each, bias) ** 2).sum().backward()
        gradients.append((x.grad.numpy(), bias.grad.numpy()))
    for own, other in zip(*gradients, strict=True):
        np.testing.assert_array_equal(own, other)
    assert not any(part.requires_grad for part in weight.buffers())


def test_a_file(tmp_path: Path) -> None:
    kinds = {kind.name: kind for kind in KINDS.values()}
    blocks = {name: files.drawn(kinds[name], 12) for name in ("Q8_0", "Q6_K", "F16", "I32")}
    path = files.write(tmp_path / "x.gguf", {
        name: (kinds[name].code, (4, 3 * kinds[name].elements), data.tobytes())
        for name, data in blocks.items()
    })  # fmt: skip
    state, _ = load(path, quantized=True)
    floats, _ = load(path)
    assert [type(each) is QuantizedWeight for each in state.values()] == [True, True, False, False]
    for name, each in state.items():
        own = each.dequantize() if isinstance(each, QuantizedWeight) else each
        assert own.numpy().tobytes() == floats[name].numpy().tobytes()
    assert state["F16"].dtype is DType.f16
    assert repr(state["Q6_K"]) == "QuantizedWeight(Q6_K, [4, 768])"


# -- what is refused -------------------------------------------------------------------------------


def test_what_is_no_weight_is_refused() -> None:
    for kind, shape, words in (
        ("Q9_9", (2, 32), "'Q9_9' is no quantized kind: there are Q4_0, "),
        ("F32", (2, 32), "'F32' is no quantized kind"),
        ("Q8_0", (2, 31), r"blocks of 32 elements: its shape is no \[2, 31\]"),
        ("Q4_K", (), r"its shape is no \[\]"),
    ):
        with pytest.raises(ValueError, match=words):
            QuantizedWeight(kind, shape)
    with pytest.raises(ValueError, match=r"is blocks of uint8 \[2, 34\], got int8 \[2, 34\]"):
        QuantizedWeight("Q8_0", (2, 32), np.zeros((2, 34), np.int8))


def test_other_functions_are_refused() -> None:
    weight, _ = q4_0()
    x = torch.ones(2, ROWS)
    for call in (lambda: torch.matmul(x, weight), lambda: x @ weight, lambda: torch.relu(weight)):
        with pytest.raises(
            TypeError, match="does not take a QuantizedWeight: linear and embedding"
        ):
            call()
    with pytest.raises(TypeError, match="takes a QuantizedWeight for its weight alone"):
        F.linear(weight, x)
    with pytest.raises(TypeError, match="max_norm writes its weight"):
        F.embedding(torch.tensor([0]), weight, max_norm=1.0)


def test_what_does_not_fit_a_model_leaves_it_as_it_was() -> None:
    model = Model()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    weight, _ = q4_0()
    small, _ = q4_0(32)
    for changed, error, words in (
        ({"norm.weight": weight}, TypeError, "norm.weight is a QuantizedWeight .Q4_0"),
        ({"head.weight": small}, RuntimeError, r"is \[32, 512\] in the state, \[96, 512\] in the"),
        ({"more": torch.ones(1)}, RuntimeError, "Unexpected names in the state: more"),
    ):
        with pytest.raises(error, match=words):
            assign(model, {**before, **changed})
    with pytest.raises(RuntimeError, match=r"Missing names in the state: head\.bias"):
        assign(model, {name: before[name] for name in before if name != "head.bias"})
    model.tokens.max_norm = 1.0
    with pytest.raises(TypeError, match="max_norm has an Embedding write its weight"):
        assign(model, {**before, "tokens.weight": weight})
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name].numpy())

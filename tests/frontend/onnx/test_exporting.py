"""`torch.onnx.export`: models that the checker takes, that ONNX Runtime runs where it is installed,
and that come back."""

from __future__ import annotations

import io
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
import frontend as torch  # noqa: E402
from frontend import nn  # noqa: E402
from frontend.nn import functional as F  # noqa: E402
from frontend.onnx import OnnxError, OnnxNotHere, TrainingMode  # noqa: E402
from graphc.errors import ShapeError, TraceError  # noqa: E402

torch.manual_seed(0)
RUNTIME = find_spec("onnxruntime") is not None


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(17, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.1)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Any) -> Any:
        return self.layers(self.table(x)).mean(1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 6, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(12, 5, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.gru(self.lstm(x)[0])[0]


class Branching(nn.Module):
    def forward(self, x: Any) -> Any:
        taken = torch.cond(x.sum() > 0, lambda t: t.exp(), lambda t: t - 1, (x,))
        last = torch.while_loop(
            lambda i, t: i < 3, lambda i, t: (i + 1, t * 0.5), (torch.tensor(0), taken)
        )
        return last[1]


def images(n: int) -> Any:
    return torch.randn(n, 1, 12, 12)


CONV = nn.Sequential(
    nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2),
    nn.Conv2d(4, 6, 3, stride=2, groups=2), nn.GroupNorm(2, 6), nn.SiLU(),
    nn.AvgPool2d(2, ceil_mode=True), nn.Flatten(), nn.Linear(6, 3), nn.LogSoftmax(-1),
)  # fmt: skip
UP = nn.Sequential(
    nn.ConvTranspose2d(1, 2, 3, stride=2, output_padding=1), nn.Upsample(scale_factor=2),
    nn.InstanceNorm2d(2), nn.Softplus(), nn.AdaptiveAvgPool2d(4),
)  # fmt: skip
CASES = {
    "layers": (
        nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.LayerNorm(6)), lambda n: torch.randn(n, 8),
    ),
    "convolutions": (CONV, images),
    "up": (UP, images),
    "encoder": (Encoder(), lambda n: torch.randint(0, 17, (n, 5))),
    "recurrent": (Recurrent(), lambda n: torch.randn(n, 5, 4)),
    "branches": (Branching(), lambda n: torch.randn(n, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_model_runs_elsewhere_and_comes_back(name: str) -> None:
    model, draw = CASES[name]
    model.eval()
    program = torch.onnx.export(model, (draw(1),), dynamic_shapes=({0: "batch"},))
    (entry,) = program.model_proto.graph.input
    assert entry.type.tensor_type.shape.dim[0].dim_param == "batch"
    back = torch.onnx.load(program.model_proto)
    kept = {path: p for path, p in model.named_parameters()}
    assert kept.keys() <= {path for path, _ in back.named_parameters()}
    for size in (1, 3, 7):
        x = draw(size)
        with torch.no_grad():
            want = model(x)
            np.testing.assert_allclose(back(x), want, rtol=1e-5, atol=1e-6)
            if RUNTIME:
                np.testing.assert_allclose(program(x)[0], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [13, 17, 20, 23])
def test_operator_sets(opset: int) -> None:
    """Composites are operators where a set has them, and their parts below it."""
    model = nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.LayerNorm(6), nn.Softmax(-1)).eval()
    program = torch.onnx.export(model, (torch.randn(2, 6),), opset_version=opset)
    assert program.model_proto.opset_import[0].version == opset
    operators = {node.op_type for node in program.model_proto.graph.node}
    assert ("LayerNormalization" in operators) == (opset >= 17)
    assert ("Gelu" in operators) == (opset >= 20)
    x = torch.randn(2, 6)
    back = torch.onnx.load(program.model_proto)
    np.testing.assert_allclose(back(x).detach(), model(x).detach(), rtol=1e-4, atol=1e-6)


def test_names_files_and_axes(tmp_path: Path) -> None:
    model = nn.Linear(4, 2)
    path = tmp_path / "m.onnx"
    program = torch.onnx.export(
        model, torch.randn(1, 4), path, input_names=["pixels"], output_names=["scores"],
        dynamic_axes={"pixels": {0: "n"}, "scores": {0: "n"}},
    )  # fmt: skip
    assert (program.input_names, program.output_names) == (("pixels",), ("scores",))
    loaded = torch.onnx.load(path)
    assert loaded.input_names == ("pixels",) and loaded.open_sizes["pixels"] == {0: "n"}
    assert {*loaded.state_dict()} == {"weight", "bias"}
    program.save(tmp_path / "beside.onnx", external_data=True)
    assert (tmp_path / "beside.onnx.data").exists()
    x = torch.randn(5, 4)
    beside = torch.onnx.load(tmp_path / "beside.onnx")
    np.testing.assert_array_equal(beside(x).detach(), model(x).detach())
    content = io.BytesIO()
    program.save(content)
    assert content.getvalue() == path.read_bytes()


def test_packed_copies_of_weights_are_kept_before_and_behind() -> None:
    """An export hands out no memory, an import takes none in: of such there are no copies."""
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64))
    example = torch.randn(8, 64)
    program = torch.onnx.export(model, (example,), dynamic_shapes=({0: "n"},))
    for each in (model, torch.onnx.load(program.model_proto)):
        compiled = torch.compile(each)
        with torch.no_grad():
            compiled(example)
        assert "packed copies: " in compiled.explain()


def test_the_mode_of_a_model() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
    x = torch.randn(4, 3)
    program = torch.onnx.export(model, x)  # in eval mode, and back in its own
    assert model.training and model[1].training
    assert next(n.op_type for n in program.model_proto.graph.node) == "BatchNormalization"
    with pytest.raises(OnnxError, match="changes running_mean"):
        torch.onnx.export(nn.BatchNorm1d(3), x, training=TrainingMode.PRESERVE)
    with pytest.raises(OnnxError, match="changes rng_state"):
        torch.onnx.export(nn.Dropout(0.5), x, training=TrainingMode.TRAINING)


class KeepsTable(nn.Module):
    """Computes a table at the first call in eval mode, and forgets it when its mode is set."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.kept = nn.Parameter(torch.randn(3)), {}

    def train(self, mode: bool = True) -> Any:
        self.kept = {}
        return super().train(mode)

    def forward(self, x: Any) -> Any:
        if not self.kept:
            self.kept["table"] = self.weight * 2
        return x + self.kept["table"]


def test_a_mode_that_a_model_has_is_not_set_again() -> None:
    model = KeepsTable().eval()
    x = torch.randn(4, 3)
    with torch.no_grad():
        model(x)
        kept = model.kept["table"]
        torch.onnx.export(model, x, verify=False)
    assert model.kept["table"] is kept


def test_what_cannot_be_exported_names_the_op_and_the_line() -> None:
    with pytest.raises(OnnxNotHere, match=r"op digamma has no operator(.|\n)*test_exporting\.py"):
        torch.onnx.export(torch.digamma, (torch.ones(3),))
    with pytest.raises(OnnxNotHere, match="operator set 99"):
        torch.onnx.export(torch.exp, (torch.ones(3),), opset_version=99)
    with pytest.raises(TraceError, match="value of a tensor"):
        torch.onnx.export(lambda x: x * float(x.sum()), (torch.ones(3),))
    with pytest.raises(ShapeError, match="no open one"):
        torch.onnx.export(lambda x: x.reshape(3 if x.shape[0] == 3 else -1), (torch.ones(3),),
                          dynamic_shapes=({0: "n"},))  # fmt: skip
    with pytest.raises(ShapeError, match=r"needs n == 3(.|\n)*at: .*test_exporting\.py"):
        torch.onnx.export(lambda x: x * int(x.shape[0]), (torch.ones(3),),
                          dynamic_shapes=({0: "n"},))  # fmt: skip


def test_an_imported_model_is_exported_with_its_names_and_sizes() -> None:
    layers = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.BatchNorm1d(3), nn.Tanh()).eval()
    shapes = ({0: "n", 2: "length"},)
    first = torch.onnx.export(layers, torch.randn(2, 2, 5), dynamic_shapes=shapes,
                              input_names=["a.signal"], output_names=["wave"])  # fmt: skip
    model = torch.onnx.load(first.model_proto)
    assert model.argument_names == ("a_signal",)
    again = torch.onnx.export(model, torch.randn(2, 2, 5), dynamic_shapes=model.open_sizes)
    assert (*again.input_names, *again.output_names) == ("a_signal", "wave")
    back = torch.onnx.load(again.model_proto)
    assert back.state_dict().keys() == model.state_dict().keys()
    compiled = torch.compile(back)
    with torch.no_grad():
        for n, length in ((3, 7), (1, 4), (4, 2)):
            x = torch.randn(n, 2, length)
            np.testing.assert_array_equal(back(x), model(x))
            np.testing.assert_array_equal(compiled(x), model(x))
        np.testing.assert_array_equal(model(a_signal=x), model(**{"a.signal": x}))
    assert "a_signal" in str(compiled.explain())


def test_an_exported_program_is_exported_with_its_sizes() -> None:
    layers = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    whole = torch.export.export(layers, (torch.randn(3, 4),), dynamic_shapes=({0: "n"},))
    file = io.BytesIO()
    torch.export.save(whole, file)
    file.seek(0)
    loaded = torch.export.load(file)
    with pytest.raises(TypeError, match="has no example"):
        torch.onnx.export(loaded)
    for program in (
        torch.onnx.export(whole), torch.onnx.export(loaded, (torch.randn(3, 4),)),
    ):  # fmt: skip
        assert program.input_names == whole.graph_signature.user_inputs
        back = torch.onnx.load(program.model_proto)
        assert back.open_sizes == whole.module().open_sizes
        x = torch.randn(7, 4)
        np.testing.assert_array_equal(back(x).detach(), layers(x).detach())


def test_open_lengths_are_computed_from_the_inputs() -> None:
    def model(x: Any, y: Any) -> Any:
        joined = torch.cat([x, y], 1)
        half = joined.shape[1] // 2
        return F.pad(joined[:, half:], (1, 0)) + torch.arange(joined.shape[1] - half + 1)

    example = (torch.randn(2, 3), torch.randn(2, 4))
    shapes = ({0: "n", 1: "a"}, {0: "n", 1: "b"})
    program = torch.onnx.export(model, example, dynamic_shapes=shapes)
    back = torch.onnx.load(program.model_proto)
    for n, a, b in ((2, 3, 4), (5, 2, 2), (1, 6, 3)):
        x, y = torch.randn(n, a), torch.randn(n, b)
        np.testing.assert_array_equal(back(x, y), model(x, y))
        if RUNTIME:
            np.testing.assert_array_equal(program(x, y)[0], model(x, y))


class Batched(nn.Module):
    """What once made the batch a number: its text, a product of batches, windows."""

    def forward(self, x: Any) -> Any:
        assert x.dim() == 4, f"images are expected, not {x.shape}"
        message = f"{x.shape} {x.shape[0]:d}"
        patches = F.unfold(x, 3, padding=1, stride=2)
        return (torch.ones(5, 9) @ patches.transpose(1, 2).unflatten(2, (2, 9)).mT) * len(
            message[:1]
        )


def test_texts_products_and_windows_leave_the_batch_open() -> None:
    x = torch.randn(2, 2, 6, 6)
    program = torch.onnx.export(Batched(), (x,), dynamic_shapes=({0: torch.export.Dim("n")},))
    back = torch.onnx.load(program.model_proto)
    for n in (1, 4):
        x = torch.randn(n, 2, 6, 6)
        assert torch.equal(back(x), Batched()(x))


def test_products_of_bfloat16_are_exported_widened() -> None:
    layer = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Flatten(), nn.Linear(16, 3)).bfloat16()
    x = torch.randn(1, 2, 4, 4).bfloat16()
    program = torch.onnx.export(layer, (x,))
    operators = [node.op_type for node in program.model_proto.graph.node]
    assert "Conv" in operators and "MatMul" in operators
    back = torch.onnx.load(program.model_proto)(x)
    torch.testing.assert_close(back, layer(x), rtol=0.05, atol=0.05)

"""Event files of `SummaryWriter`, read back by TensorBoard's own reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorboard", reason="the extra tensorboard")

from tensorboard.backend.event_processing.event_accumulator import (
    DEFAULT_SIZE_GUIDANCE,
    EventAccumulator,
)
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.util.tensor_util import make_ndarray

import frontend as torch
from frontend import nn
from frontend.utils.tensorboard import SummaryWriter
from frontend.utils.tensorboard.arrays import image_of


def read(folder: Path) -> Any:
    everything = dict.fromkeys(DEFAULT_SIZE_GUIDANCE, 0)
    return EventAccumulator(str(folder), everything).Reload()


def test_scalars(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path, purge_step=1) as writer:
        writer.add_scalar("plain", torch.tensor(0.5), 1, walltime=3.0)
        writer.add_scalar("tensor", 0.25, 2, new_style=True)
        writer.add_scalar("double", 0.1, 2, new_style=True, double_precision=True)
        writer.add_scalars("both", {"a": 1, "b": 2}, 0)
        writer.flush()
        with pytest.raises(AssertionError, match="0D"):
            writer.add_scalar("several", torch.ones(2))
        with pytest.raises(NotImplementedError, match="numpy array or torch tensor"):
            writer.add_scalar("text", "a")
    events = read(tmp_path)
    (plain,) = events.Scalars("plain")
    assert (plain.step, plain.wall_time, plain.value) == (1, 3.0, 0.5)
    assert make_ndarray(events.Tensors("tensor")[0].tensor_proto) == np.float32(0.25)
    assert make_ndarray(events.Tensors("double")[0].tensor_proto) == 0.1
    assert read(tmp_path / "both_b").Scalars("both")[0].value == 2
    writer.add_scalar("later", 1)  # opens another file
    writer.close()
    assert read(tmp_path).Scalars("later")[0].value == 1


def test_histograms_count_every_value(tmp_path: Path) -> None:
    values = torch.tensor([-2.0, 0.0, 0.0, 0.5, 3.0])
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("h", values, 0)
        writer.add_histogram("few", values, 0, bins=64, max_bins=4)
        with pytest.raises(ValueError, match="no element"):
            writer.add_histogram("none", torch.ones(0))
        writer.add_histogram_raw("raw", 0, 1, 2, 1, 1, [0.5, 1.0], [1, 1], 0)
    events = read(tmp_path)
    held = events.Histograms("h")[0].histogram_value
    assert (held.min, held.max, held.num, held.sum, held.sum_squares) == (-2, 3, 5, 1.5, 13.25)
    limits, counts = np.array(held.bucket_limit), np.array(held.bucket)
    assert counts.sum() == 5 and counts[0] == 0 and len(limits) == len(counts)
    for value in values.tolist():  # each lies in a bucket that is not empty
        assert counts[np.searchsorted(limits, value, side="right")]
    assert sum(events.Histograms("few")[0].histogram_value.bucket) == 5
    assert len(events.Histograms("few")[0].histogram_value.bucket) <= 6
    assert events.Histograms("raw")[0].histogram_value.bucket == [1.0, 1.0]


def test_pictures_and_sounds(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="Pillow writes PNG")
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("one", torch.rand(3, 4, 5), 0)
        writer.add_images("many", torch.rand(5, 1, 4, 5), 0)
        writer.add_image_with_boxes("boxes", torch.rand(3, 9, 9), torch.tensor([[1, 1, 5, 5]]), 0)
        writer.add_video("video", torch.rand(1, 3, 3, 4, 5), 0)
        writer.add_audio("sound", torch.rand(100), 0, sample_rate=8000)
    events = read(tmp_path)
    sizes = {
        tag: (i.height, i.width) for tag in events.Tags()["images"] for i in events.Images(tag)
    }
    assert sizes == {"one": (4, 5), "many": (4, 25), "boxes": (9, 9), "video": (4, 5)}
    assert events.Images("one")[0].encoded_image_string[1:4] == b"PNG"
    assert events.Audio("sound")[0].sample_rate == 8000


def test_an_image_has_its_axes_in_any_order() -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (4, 5, 3), np.uint8)
    assert (image_of(pixels, "HWC") == pixels).all()
    assert (image_of(torch.tensor(pixels.transpose(2, 0, 1)), "CHW") == pixels).all()
    assert (image_of(pixels[..., 0] / 255, "HW") == pixels[..., :1]).all()
    with pytest.raises(AssertionError, match="does not name the axes"):
        image_of(pixels, "CH")


def test_a_graph_is_that_of_a_trace(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(net, torch.ones(1, 3))
    graph = read(tmp_path).Graph()
    assert isinstance(graph, GraphDef)
    by_name = {node.name: node for node in graph.node}
    assert all(source in by_name for node in graph.node for source in node.input)
    (relu,) = [node for node in graph.node if node.op == "relu"]
    assert relu.name.startswith("Sequential/1/")
    shape = relu.attr["_output_shapes"].list.shape[0]
    assert [dim.size for dim in shape.dim] == [1, 2]


def test_charts_texts_and_runs(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_text("note", "*text*", 1)
        writer.add_pr_curve(
            "curve", torch.tensor([1, 0, 1, 0]), torch.tensor([0.9, 0.1, 0.4, 0.6]), 0,
            num_thresholds=5,
        )  # fmt: skip
        writer.add_custom_scalars({"c": {"m": ["Multiline", ["a"]], "n": ["Margin", list("abc")]}})
        writer.add_mesh("mesh", torch.rand(1, 4, 3), faces=torch.zeros(1, 2, 3, dtype=torch.int32))
        writer.add_hparams(
            {"lr": 0.1, "name": "a", "flag": True}, {"acc": 1}, {"lr": [0.1, 0.2]}, "run"
        )
        with pytest.raises(TypeError, match="should be a list of same type"):
            writer.add_hparams({"lr": 0.1}, {}, {"lr": ["a"]})
        with pytest.raises(ValueError, match="one of int, float"):
            writer.add_hparams({"lr": object()}, {})
        with pytest.raises(NotImplementedError, match="add_graph"):
            writer.add_onnx_graph("x")
    events = read(tmp_path)
    assert make_ndarray(events.Tensors("note/text_summary")[0].tensor_proto).item() == b"*text*"
    counts = make_ndarray(events.Tensors("curve")[0].tensor_proto)
    # Of four, at thresholds 0, 1/4, … 1: two are labelled 1, at 0.9 and 0.4.
    assert counts[0].tolist() == [2, 2, 1, 1, 0] and counts[1].tolist() == [2, 1, 1, 0, 0]
    assert {"mesh_VERTEX", "mesh_FACE"} <= set(events.Tags()["tensors"])
    run = read(tmp_path / "run")
    assert run.Scalars("acc")[0].value == 1
    assert run.SummaryMetadata("_hparams_/session_start_info").plugin_data.plugin_name == "hparams"


def test_embeddings_and_figures(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="Pillow writes PNG")
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(
            torch.rand(3, 2), metadata=["a", "b", "c"], label_img=torch.rand(3, 3, 4, 4)
        )
        writer.add_embedding(
            torch.rand(2, 2), [[1, "a"], [2, "b"]], tag="more", metadata_header=["n", "t"]
        )
        with pytest.raises(ValueError, match="labels should equal"):
            writer.add_embedding(torch.rand(3, 2), metadata=["a"])
    folder = tmp_path / "00000"
    assert len((folder / "default" / "tensors.tsv").read_text().splitlines()) == 3
    assert (folder / "default" / "sprite.png").exists()
    assert (folder / "more" / "metadata.tsv").read_text().splitlines()[0] == "n\tt"
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert config.count("embeddings {") == 2 and "00000/more/tensors.tsv" in config
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="the extra viz")
    with SummaryWriter(tmp_path / "figures") as writer:
        writer.add_figure("figure", pyplot.figure(figsize=(1, 1), dpi=20), 0)
    assert read(tmp_path / "figures").Images("figure")[0].height == 20


def test_without_the_package_the_name_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from frontend.utils import tensorboard

    monkeypatch.delitem(sys.modules, "frontend.utils.tensorboard.writer")
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    for name in [name for name in sys.modules if name.startswith("tensorboard.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match="tensorboard"):
        _ = tensorboard.SummaryWriter

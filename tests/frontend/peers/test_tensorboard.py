"""Entries of event files beside those of PyTorch's writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tensorboard", reason="the extra tensorboard")

import torch as oracle
import torch.utils.tensorboard as oracles
from tensorboard.backend.event_processing.event_file_loader import (
    LegacyEventFileLoader,
)
from tensorboard.util.tensor_util import make_ndarray

import frontend as torch
from frontend.utils.tensorboard import SummaryWriter


def entries(folder: Path) -> list[Any]:
    """The values of the summaries in the event files of a folder and below it, in order."""
    found = []
    for path in sorted(folder.rglob("events*")):
        for event in LegacyEventFileLoader(str(path)).Load():
            found += [(event.step, value) for value in event.summary.value]
    return found


def write(writer: Any, library: Any) -> None:
    random = np.random.default_rng(0)
    tensor = library.from_numpy
    labels, scores = tensor(random.integers(0, 2, 50)), tensor(random.random(50))
    writer.add_scalar("scalar", 0.5, 1)
    writer.add_scalar("new", 0.5, 1, new_style=True)
    writer.add_scalar("old", 0.5, 1, double_precision=True)
    writer.add_scalar("double", 0.1, 1, new_style=True, double_precision=True)
    writer.add_histogram("normal", tensor(random.standard_normal(1000)), 1)
    writer.add_histogram("above", tensor(random.random(100)) + 3, 1)
    writer.add_histogram("whole", tensor(random.integers(-5, 5, 100)), 1, bins="auto")
    writer.add_pr_curve("curve", labels, scores, 1, num_thresholds=30)
    writer.add_pr_curve("weighted", labels, scores, 1, weights=random.random(50))
    writer.add_text("text", "text", 1)
    writer.add_tensor("tensor", tensor(random.random((2, 3))), 1)
    writer.add_custom_scalars({"a": {"b": ["Multiline", ["c", "d"]], "e": ["Margin", list("fgh")]}})
    vertices, faces = tensor(random.random((1, 4, 3))), tensor(random.integers(0, 4, (1, 2, 3)))
    writer.add_mesh("mesh", vertices, faces=faces, config_dict={"x": 1}, global_step=1)
    writer.add_hparams({"lr": 0.1, "name": "n"}, {"loss": 0.5}, {"name": ["n", "m"]}, "run")


def test_entries_are_pytorchs(tmp_path: Path) -> None:
    for name, kind, library in (("ours", SummaryWriter, torch),
                                ("theirs", oracles.SummaryWriter, oracle)):  # fmt: skip
        with kind(tmp_path / name) as writer:
            write(writer, library)
    ours, theirs = entries(tmp_path / "ours"), entries(tmp_path / "theirs")
    assert [(step, value.tag) for step, value in ours] == [(s, v.tag) for s, v in theirs]
    for (_, value), (_, expected) in zip(ours, theirs):
        assert value.metadata.plugin_data == expected.metadata.plugin_data, value.tag
        assert value.histo == expected.histo and value.simple_value == expected.simple_value
        assert value.HasField("tensor") == expected.HasField("tensor")
        if value.HasField("tensor"):
            numbers, wanted = make_ndarray(value.tensor), make_ndarray(expected.tensor)
            assert numbers.dtype == wanted.dtype and numbers.shape == wanted.shape, value.tag
            assert (numbers == wanted).all(), value.tag


def test_images_are_pytorchs(tmp_path: Path) -> None:
    """But for the bytes of PNG."""
    from io import BytesIO

    Image = pytest.importorskip("PIL.Image", reason="Pillow writes PNG")
    shown = []
    for name, kind, library in (("ours", SummaryWriter, torch),
                                ("theirs", oracles.SummaryWriter, oracle)):  # fmt: skip
        random = np.random.default_rng(0)
        with kind(tmp_path / name) as writer:
            for layout, shape in (("CHW", (3, 4, 5)), ("HW", (4, 5)), ("NCHW", (5, 1, 4, 6)),
                                  ("HWC", (4, 5, 3))):  # fmt: skip
                pixels = library.from_numpy(random.random(shape))
                writer.add_image(layout, pixels, 0, dataformats=layout)
        values = [value for _, value in entries(tmp_path / name)]
        shown.append(
            [np.asarray(Image.open(BytesIO(v.image.encoded_image_string))) for v in values]
        )
    for ours, theirs in zip(*shown):
        assert ours.shape == theirs.shape and (ours == theirs).all()

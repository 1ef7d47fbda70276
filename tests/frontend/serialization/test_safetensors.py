"""safetensors files both ways, also against the library's own reader and writer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import frontend as torch
from frontend import nn
from frontend import safetensors as files
from frontend.serialization import CheckpointError


def test_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    tensors = {"w": torch.arange(6.0).reshape(2, 3).t(), "n": torch.tensor(3)}
    files.save_file(tensors, path, {"by": "test"})
    found = safetensors.numpy.load_file(path)
    np.testing.assert_array_equal(found["w"], [[0, 3], [1, 4], [2, 5]])
    safetensors.numpy.save_file({"b": np.array([True]), "d": np.ones((2, 0))}, path)
    again = files.load_file(path)
    assert again["b"].tolist() == [True] and again["d"].shape == (2, 0)
    again["b"].zero_()  # memory of its own


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    x = torch.ones(3)
    with pytest.raises(CheckpointError, match="'b' and 'a' share memory"):
        files.save({"a": x, "b": x})
    with pytest.raises(CheckpointError, match="'a' is a int"):
        files.save({"a": 1})
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        files.load(b"what")
    with pytest.raises(CheckpointError, match="live on the CPU"):
        files.load_file(tmp_path / "x", device="cuda")


def test_modules_with_shared_tensors(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
            self.b.weight = self.a.weight

    model, other, path = Tied(), Tied(), tmp_path / "m.safetensors"
    files.save_model(model, path)
    assert set(files.load_file(path)) == {"a.weight", "a.bias", "b.bias"}
    assert files.load_model(other, path) == (set(), [])
    assert other.b.weight.tolist() == model.a.weight.tolist()
    with pytest.raises(RuntimeError, match="unexpected keys"):
        files.load_model(nn.Linear(2, 2), path)

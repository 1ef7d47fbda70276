"""safetensors files both ways, also against the library's own reader and writer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy

import frontend as torch
from frontend import nn
from frontend import safetensors as files
from frontend.serialization import CheckpointError


def test_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    tensors = {"w": torch.arange(6.0).reshape(2, 3).t(), "n": torch.tensor(3)}
    files.save_file(tensors, path, {"by": "test"})
    arrays = safetensors.numpy.load_file(path)
    np.testing.assert_array_equal(arrays["w"], [[0, 3], [1, 4], [2, 5]])
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


# -- as libraries find it while the frontend is installed ------------------------------------------


def test_safetensors_torch_is_this_while_installed(tmp_path: Path) -> None:
    path = str(tmp_path / "x.safetensors")
    before = safetensors.safe_open
    with torch.install_as("torch"):
        import safetensors.torch as theirs

        assert theirs is files
        model, other = nn.Linear(2, 3), nn.Linear(2, 3)
        theirs.save_file(model.state_dict(), path, metadata={"format": "pt"})
        other.load_state_dict(theirs.load_file(path, device="cpu"))
        assert other.weight.tolist() == model.weight.tolist()
        theirs.save_model(model, path)
        assert theirs.load_model(other, path) == (set(), [])
        with safetensors.safe_open(path, framework="pt", device="cpu") as file:
            assert isinstance(file.get_tensor("weight"), torch.Tensor)
        with safetensors.safe_open(path, framework="np") as file:
            assert isinstance(file.get_tensor("weight"), np.ndarray)
    assert safetensors.safe_open is before


def test_an_open_file_reads_tensors_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    tensors = {"b": torch.arange(6.0).reshape(2, 3), "a": torch.ones(2, dtype=torch.bfloat16)}
    files.save_file(tensors, path, {"by": "test"})
    with files.safe_open(path, "pt") as file:
        assert file.keys() == ["a", "b"] and file.metadata() == {"by": "test"}
        assert sorted(file.offset_keys()) == ["a", "b"]
        assert file.get_tensor("a").dtype is torch.bfloat16
        part = file.get_slice("b")
        assert (part.get_shape(), part.get_dtype()) == ([2, 3], "F32")
        assert part[1:, :2].tolist() == [[3, 4]] and part[...].shape == (2, 3)
        with pytest.raises(CheckpointError, match="no tensor 'c'"):
            file.get_tensor("c")
    data = path.read_bytes()
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match="no safetensors file"):
            files.safe_open(path)
    with pytest.raises(FileNotFoundError, match="missing"):
        files.safe_open(tmp_path / "missing")


def test_storages_of_tensors() -> None:
    x = torch.arange(6.0)
    assert files.storage_ptr(x[2:]) == files.storage_ptr(x) and files.storage_size(x[2:]) == 24
    assert files.storage_ptr(torch.zeros(0)) == 0


def test_threads_read_one_file(tmp_path: Path) -> None:
    """As loaders of large models do."""
    path = tmp_path / "x.safetensors"
    files.save_file({f"x{i}": torch.full((300 + i,), float(i)) for i in range(40)}, path)
    with files.safe_open(path, "pt") as file, ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            read = list(pool.map(file.get_tensor, [f"x{i}" for i in range(40)]))
            assert all(x.shape == (300 + i,) and (x == i).all() for i, x in enumerate(read))


def test_tensors_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    """Other orders for each process would give a model's parameters other places."""
    tensors = {f"z{i}": torch.full((i,), float(i)) for i in range(1, 12)}
    tensors |= {"last": torch.ones(2, dtype=torch.int8), "first": torch.ones(1).double()}
    files.save_file(tensors, tmp_path / "x.safetensors")
    with files.safe_open(tmp_path / "x.safetensors") as file:
        order = file.offset_keys()
    assert [*files.load_file(tmp_path / "x.safetensors")] == order != sorted(order)

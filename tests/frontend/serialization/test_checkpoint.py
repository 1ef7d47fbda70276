"""`save` and `load`: round trips, and files that are refused without running anything."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import threading
from collections import OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import frontend as torch
import graphc
from frontend import nn, optim
from frontend.serialization import FORMAT, CheckpointError


def same(a: Any, b: Any) -> bool:
    """Equal in types, structure and values (NaN equals NaN)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        equal = np.array_equal(a.detach().numpy(), b.detach().numpy(), equal_nan=a.dtype.is_float)
        return a.tensor_type == b.tensor_type and equal and a.requires_grad == b.requires_grad
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)


CHECKPOINT = {
    "epoch": 3, "loss": 0.1, "big": 2**70, "none": None, "flag": True, "name": "é",
    "odd": [math.inf, -math.inf, math.nan, -0.0], "empty": [{}, [], ()],
    1: (1, 2.0, [3]), None: {True: 1}, 2.5: OrderedDict(b=1, a=2),
    "tensors": [
        torch.arange(6).reshape(2, 3), torch.tensor(1.5, dtype=torch.float64),
        torch.zeros(0, 3), torch.tensor([True, False]), torch.arange(3, dtype=torch.int32),
        torch.ones(2, requires_grad=True), torch.arange(6.0).reshape(2, 3).t(),
    ],
    "parameter": nn.Parameter(torch.ones(2)),
    "frozen": nn.Parameter(torch.ones(2), requires_grad=False),
}  # fmt: skip


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    torch.save(CHECKPOINT, path)
    assert same(torch.load(path), CHECKPOINT)
    torch.save([1], str(path))
    assert torch.load(str(path)) == [1]
    buffer = io.BytesIO()
    torch.save(CHECKPOINT, buffer)
    buffer.seek(0)
    assert same(torch.load(buffer), CHECKPOINT)
    assert os.listdir(tmp_path) == ["checkpoint.pt"]


@pytest.mark.parametrize("obj", [None, 3, "text", math.nan, torch.ones(2), [], ()])
def test_any_object_can_be_the_root(tmp_path: Path, obj: Any) -> None:
    torch.save(obj, tmp_path / "x")
    assert same(torch.load(tmp_path / "x"), obj)


def test_training_resumes_exactly(tmp_path: Path) -> None:
    def build() -> tuple[Any, Any]:
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        return model, optim.Adam(model.parameters(), lr=0.05)

    def advance(model: Any, opt: Any) -> float:
        opt.zero_grad()
        loss = (model(torch.ones(2, 3)) ** 2).sum()
        loss.backward()
        opt.step()
        return loss.item()

    model, opt = build()
    for _ in range(3):
        advance(model, opt)
    states = {"model_state_dict": model.state_dict(), "optimizer_state_dict": opt.state_dict()}
    torch.save({"epoch": 3, **states}, tmp_path / "c.pt")
    expected = [advance(model, opt) for _ in range(3)]
    model, opt = build()
    loaded = torch.load(tmp_path / "c.pt", weights_only=True)
    model.load_state_dict(loaded["model_state_dict"])
    opt.load_state_dict(loaded["optimizer_state_dict"])
    assert [advance(model, opt) for _ in range(3)] == expected


def test_shared_tensors_stay_shared(tmp_path: Path) -> None:
    x = torch.ones(3)
    torch.save({"a": x, "b": x.detach(), "other": torch.ones(3)}, tmp_path / "x")
    loaded = torch.load(tmp_path / "x")
    loaded["a"][0] = 5
    assert loaded["b"][0] == 5 and loaded["other"][0] == 1


OLD = {
    "a": ["dict", [["t", ["tensor", "0", False]], ["again", ["tensor", "0", False]]]],
    "p": ["parameter", "1", True], "n": ["tuple", [1, ["float", "inf"], None, True]],
    "o": ["OrderedDict", [[["float", "nan"], ["list", []]]]],
}  # fmt: skip


def test_files_of_the_earlier_format_are_still_read(tmp_path: Path) -> None:
    arrays = {"0": np.arange(6.0).reshape(2, 3), "1": np.ones(2, np.float32)}
    structure = json.dumps(["dict", [[key, item] for key, item in OLD.items()]])
    path = tmp_path / "x"
    path.write_bytes(safetensors.numpy.save(arrays, {"format": FORMAT, "structure": structure}))
    loaded = torch.load(path)
    assert loaded["a"]["t"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert loaded["a"]["t"] is loaded["a"]["again"] and loaded["n"] == (1, math.inf, None, True)
    assert isinstance(loaded["p"], nn.Parameter) and loaded["p"].requires_grad
    (key,) = loaded["o"]
    assert math.isnan(key) and type(loaded["o"]) is OrderedDict


@pytest.mark.parametrize("key", ["9" * 5000, '["float", "1e400"]', '["float", "x"]'])
def test_strange_keys_of_the_earlier_format_are_refused(tmp_path: Path, key: str) -> None:
    metadata = {"format": FORMAT, "structure": f'["dict", [[{key}, 1]]]'}
    (tmp_path / "x").write_bytes(safetensors.numpy.save({"0": np.ones(2)}, metadata))
    with pytest.raises(CheckpointError, match=r"is damaged: (Exceeds the limit|its structure)"):
        torch.load(tmp_path / "x")


class Custom(dict):
    pass


@pytest.mark.parametrize(
    ("obj", "where"),
    [
        ({"a": {"b": [1, lambda: 0]}}, r"\['a'\]\['b'\]\[1\] is a builtins.function"),
        ({"x": threading.Lock()}, r"\['x'\] is a _thread.lock"),
        ({"x": 1 << 3000}, r"\['x'\] has more than 2000 bits"),
        ({"d": defaultdict(lambda: 0)}, r"\['d'\] makes its values by <function"),
    ],
)
def test_what_pickle_does_not_take_is_refused_by_key(tmp_path: Path, obj: Any, where: str) -> None:
    path = tmp_path / "x"
    torch.save([1], path)
    with pytest.raises(CheckpointError, match=where):
        torch.save(obj, path)
    assert torch.load(path) == [1] and os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize(
    "obj",
    [
        {"net": nn.Linear(2, 3), "step": 4}, {"x": np.array([Custom(a=1)])}, {object: 3},
        Custom(a=torch.arange(3)), {"f": print}, {"x": torch.ones(2), "path": Path("a")},
    ],
)  # fmt: skip
def test_other_objects_are_saved_whole_and_read_by_those_who_trust_the_file(
    tmp_path: Path, obj: Any
) -> None:
    torch.save(obj, tmp_path / "x")
    with pytest.raises(CheckpointError, match="x holds pickled objects: loading it would run code"):
        torch.load(tmp_path / "x")
    loaded = torch.load(tmp_path / "x", weights_only=False)
    assert type(loaded) is type(obj) and str(loaded) == str(obj)


def test_a_cycle_is_refused(tmp_path: Path) -> None:
    cycle: list[Any] = [1]
    cycle.append({"again": cycle})
    with pytest.raises(CheckpointError, match=r"\[1\]\['again'\] contains itself"):
        torch.save(cycle, tmp_path / "x")


@pytest.mark.slow
def test_a_truncated_file_is_refused_at_every_length(tmp_path: Path) -> None:
    path = tmp_path / "short.pt"
    torch.save({"a": torch.ones(2), "b": [1, 2]}, path)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match=r"short\.pt is not a checkpoint"):
            torch.load(path)


class Exploit:
    def __reduce__(self) -> Any:
        return os.mkdir, (self.target,)

    target = ""


def test_garbage_and_pickles_are_refused_without_running(tmp_path: Path) -> None:
    path = tmp_path / "bad.pt"
    trap = Exploit()
    trap.target = Exploit.target = str(tmp_path / "pwned")
    for data in (b"", b"hello", b"\xff" * 100, b"PK\x03\x04" + b"\0" * 50, pickle.dumps(trap)):
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match=r"bad\.pt is not a checkpoint of frontend.save"):
            torch.load(path)
        with pytest.raises(graphc.GraphError, match=r"is not a checkpoint of frontend\.save"):
            torch.load(io.BytesIO(data))
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    "structure",
    [
        '["call", "os.system"]', '["tensor", "7", false]', '["tensor", "0", "yes"]', '{"a": 1}',
        '["list", [["what"]]]', '["dict", [[["list", []], 1]]]', '["dict", [[1]]]', "[", "[]",
        '["float", "1e5"]', "[" * 100_000,
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_unknown_structures_are_refused(tmp_path: Path, structure: str) -> None:
    metadata = {"format": FORMAT, "structure": structure}
    path = tmp_path / "odd.pt"
    path.write_bytes(safetensors.numpy.save({"0": np.ones(2)}, metadata))
    with pytest.raises(CheckpointError, match=r"odd\.pt is not a checkpoint"):
        torch.load(path)


def test_safetensors_of_others_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    path.write_bytes(safetensors.numpy.save({"w": np.ones(2)}))
    with pytest.raises(CheckpointError, match="its format is None"):
        torch.load(path)
    metadata = {"format": FORMAT, "structure": json.dumps(["tensor", "0", False])}
    written = safetensors.numpy.save({"0": np.ones(2, np.complex64)}, metadata)
    path.write_bytes(written.replace(b'"C64"', b'"C32"').replace(b"[2]", b"[4]"))
    with pytest.raises(CheckpointError, match="Error while deserializing"):
        torch.load(path)


def test_arguments(tmp_path: Path) -> None:
    torch.save([1], tmp_path / "x")
    assert torch.load(tmp_path / "x", map_location="cpu") == [1]
    with pytest.raises(CheckpointError, match="tensors live on the CPU"):
        torch.load(tmp_path / "x", map_location="cuda")
    assert torch.load(tmp_path / "x", lambda storage, place: storage, weights_only=False) == [1]
    with pytest.raises(FileNotFoundError, match="missing"):
        torch.load(tmp_path / "missing")

"""Files written by PyTorch are read, with the numbers they hold."""

from __future__ import annotations

import io
from argparse import Namespace
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend
from frontend.serialization import CheckpointError


def test_a_checkpoint_of_torch_comes_along(peer: Any, tmp_path: Path) -> None:
    torch = peer.torch
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    path = tmp_path / "checkpoint.pth"
    checkpoint = {
        "epoch": 3, "loss": 0.25, "model_state_dict": model.state_dict(),
        "optimizer_state_dict": optimizer.state_dict(),
    }  # fmt: skip
    torch.save(checkpoint, path)
    loaded = frontend.load(path)
    peer.agree(loaded["model_state_dict"], dict(checkpoint["model_state_dict"]), bound=0)
    assert (loaded["epoch"], loaded["loss"]) == (3, 0.25)
    nn = frontend.nn
    mine = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    mine.load_state_dict(loaded["model_state_dict"])
    resumed = frontend.optim.Adam(mine.parameters())
    resumed.load_state_dict(loaded["optimizer_state_dict"])
    both = ((torch, model, optimizer), (frontend, mine, resumed))
    for system, net, opt in both:
        opt.zero_grad()
        net(system.ones(2, 3)).sum().backward()
        opt.step()
    for p, q in zip(mine.parameters(), model.parameters(), strict=True):
        peer.agree(p, q)


DTYPES = [
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool",
]  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
def test_every_element_type(peer: Any, tmp_path: Path, name: str) -> None:
    torch = peer.torch
    values = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(torch, name))
    torch.save({"x": values, "t": values.t(), "row": values[1]}, tmp_path / "x.pt")
    loaded = frontend.load(tmp_path / "x.pt")
    assert loaded["x"].dtype is getattr(frontend, name)
    assert loaded["t"].double().tolist() == values.t().double().tolist()
    loaded["row"].zero_()
    assert not np.any(loaded["x"][1].double().tolist())


def test_objects_and_modules_of_torch_are_refused(peer: Any, tmp_path: Path) -> None:
    torch = peer.torch
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pt")
    with pytest.raises(CheckpointError, match=r"names torch\.nn\.modules\.linear\.Linear"):
        frontend.load(tmp_path / "module.pt")


def plain(system: Any) -> list[Any]:
    """What both systems save and load: containers, numbers, NumPy's, views, attributes."""
    x = system.arange(12.0).reshape(3, 4)
    marked, parameter = system.ones(3), system.nn.Parameter(system.ones(2))
    marked.note, parameter.note = "kept", {"lr": 0.5}
    return [
        {"x": x, "t": x.t(), "row": x[1], "expanded": system.ones(1).expand(3, 4)},
        [marked, parameter, system.zeros(2, 0), system.tensor(5), system.nn.Linear(2, 3).bias],
        [system.device("cuda", 1), system.device("cpu"), system.float16, system.Size([1, 2])],
        [{1, 2}, b"ab\xff", bytearray(b"x"), 1 + 2j, Counter("aab"), 2**100, -1.5, None, True],
        {(1, "a"): OrderedDict(b=1), 2.5: [(), ({},)], "é": "\n", None: 0, True: -1, b"k": 2},
        [system.tensor([1, 0, 3]).to(getattr(system, name)) for name in DTYPES],
    ]


OTHERS: list[Any] = [
    [frozenset([3]), range(1, 7, 2), slice(1, None), defaultdict(list, {1: [2]}), defaultdict(int)],
    [np.arange(3, dtype="f4"), np.float64(2), np.array(["ab", "é"]), np.array([b"xy"]),
     np.array([[True, False]]), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.zeros((0, 3)),
     np.array(1 + 2j), np.arange(40, dtype="u2"), np.bool_(True)],
    {"args": Namespace(lr=0.1, sizes=[1, 2], model=None), "none": Namespace()},
]  # fmt: skip


def same(mine: Any, theirs: Any) -> None:
    """Equal in structure, numbers, strides and attributes of tensors."""
    if hasattr(theirs, "detach"):
        assert mine.detach().double().tolist() == theirs.detach().double().tolist()
        assert str(mine.dtype) == str(theirs.dtype)
        assert mine.stride() == theirs.stride() or not theirs.numel()
        assert mine.requires_grad == theirs.requires_grad
        assert getattr(mine, "note", None) == getattr(theirs, "note", None)
    elif isinstance(theirs, np.ndarray):
        np.testing.assert_array_equal(mine, theirs, strict=True)
    elif isinstance(theirs, dict):
        assert list(mine) == list(theirs) and type(mine) is type(theirs)
        for key in theirs:
            same(mine[key], theirs[key])
    elif repr(theirs).startswith(("torch.", "device(")):
        assert repr(mine) == repr(theirs)
    elif isinstance(theirs, list | tuple):
        assert len(mine) == len(theirs)
        for x, y in zip(mine, theirs, strict=True):
            same(x, y)
    else:
        assert type(mine) is type(theirs) and mine == theirs


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_all_plain_data_of_torch_is_read(peer: Any, zipped: bool, protocol: int) -> None:
    for obj in [*plain(peer.torch), *OTHERS]:
        buffer = io.BytesIO()
        peer.torch.save(
            obj, buffer, _use_new_zipfile_serialization=zipped, pickle_protocol=protocol
        )
        buffer.seek(0)
        same(frontend.load(buffer), obj)


@pytest.mark.parametrize("mmap", [False, True])
def test_torch_reads_what_is_written_here(peer: Any, tmp_path: Path, mmap: bool) -> None:
    for obj in plain(frontend):
        frontend.save(obj, tmp_path / "x.pt")
        same(peer.torch.load(tmp_path / "x.pt", weights_only=True, mmap=mmap), obj)
        same(frontend.load(tmp_path / "x.pt", mmap=mmap), obj)
    for obj in OTHERS:
        frontend.save(obj, tmp_path / "x.pt")
        same(peer.torch.load(tmp_path / "x.pt", weights_only=False), obj)
        same(frontend.load(tmp_path / "x.pt"), obj)


@pytest.mark.parametrize("legacy", [False, True])
def test_views_of_one_storage_stay_shared(peer: Any, tmp_path: Path, legacy: bool) -> None:
    torch, path = peer.torch, tmp_path / "x.pt"
    x = torch.zeros(4, 5)
    whole = {"x": x, "column": x[:, 1], "again": x.t()}
    torch.save(whole, path, _use_new_zipfile_serialization=not legacy)
    loaded = frontend.load(path)
    loaded["column"].fill_(1)
    assert loaded["x"].sum() == 4 and loaded["again"][1].tolist() == [1, 1, 1, 1]
    frontend.save(loaded, path)
    again = torch.load(path, weights_only=True)
    again["column"].fill_(2)
    assert again["x"].sum() == 8 and again["again"][1].tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda torch: torch.ones(2, dtype=torch.complex32), "complex32"),
        (lambda torch: torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8), "q"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_is_not_here_is_named(peer: Any, tmp_path: Path, make: Any, name: str) -> None:
    for zipped in (True, False):
        torch = peer.torch
        torch.save([make(torch)], tmp_path / "x", _use_new_zipfile_serialization=zipped)
        with pytest.raises(CheckpointError, match=f"it holds {name}.* tensors, which are not"):
            frontend.load(tmp_path / "x")

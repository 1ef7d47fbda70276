"""Files written by PyTorch are read, with the numbers they hold."""

from __future__ import annotations

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
    found = frontend.load(path)
    peer.agree(found["model_state_dict"], dict(checkpoint["model_state_dict"]), bound=0)
    assert (found["epoch"], found["loss"]) == (3, 0.25)
    nn = frontend.nn
    mine = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    mine.load_state_dict(found["model_state_dict"])
    resumed = frontend.optim.Adam(mine.parameters())
    resumed.load_state_dict(found["optimizer_state_dict"])
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
    found = frontend.load(tmp_path / "x.pt")
    assert found["x"].dtype is getattr(frontend, name)
    assert found["t"].double().tolist() == values.t().double().tolist()
    found["row"].zero_()
    assert not np.any(found["x"][1].double().tolist())


def test_objects_and_modules_of_torch_are_refused(peer: Any, tmp_path: Path) -> None:
    torch = peer.torch
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pt")
    with pytest.raises(CheckpointError, match=r"names torch\.nn\.modules\.linear\.Linear"):
        frontend.load(tmp_path / "module.pt")
    torch.save(torch.ones(2), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        frontend.load(tmp_path / "old.pt")

"""`graphc compare --peers torch`: a file of the frontend, run by PyTorch itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import frontend
from graphc.debug.compare.peers import peer_run
from graphc.debug.program import AS_IT_IS

torch = pytest.importorskip("torch")

FILE = """
from typing import Annotated, Any
import frontend as torch
import frontend.nn.functional as F
from frontend import nn
from frontend.optim.lr_scheduler import StepLR

net = nn.Sequential(nn.Linear(6, 3), nn.Tanh())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

def step(x: Annotated[Any, "f32[4,6]"]) -> Any:
    assert torch.__name__ == "torch" and type(x).__module__ == "torch"
    loss = F.mse_loss(net(x), torch.ones(4, 3))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return {"loss": loss, "rest": [net[0].bias, 3]}
"""


def test_a_file_runs_by_pytorch(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FILE, "utf-8")
    threads = torch.get_num_threads()
    try:
        with peer_run("torch", f"{tmp_path / 'train.py'}:step", (), AS_IT_IS, 1) as run:
            first = run.read(run.step())
            second = run.read(run.step())
    finally:
        torch.set_num_threads(threads)
    assert [array.shape for array in first] == [(), (3,)] and second[0] < first[0]
    import frontend as again

    assert again is frontend and torch.__spec__.name == "torch"

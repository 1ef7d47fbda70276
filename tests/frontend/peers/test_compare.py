"""`graphc compare --peers torch`: a file of the frontend, run by PyTorch itself, in the process
that ladders run it in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from graphc.debug.compare.worker import Task

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
    task = Task(f"{tmp_path / 'train.py'}:step", (), 0, 1, peer="torch")
    ran = subprocess.run(
        [sys.executable, "-m", "graphc.debug.compare.worker", task.text()],
        input="turn 0\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    facts, turn = map(json.loads, ran.stdout.splitlines())
    assert "missing" not in facts and 0 < facts["value"] < 10, ran.stderr
    assert turn["steps"] == 2 and turn["min_us"] <= turn["p99_us"]

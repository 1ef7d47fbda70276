"""One training step of the digits MLP: compiled by graphc against PyTorch's eager mode.

The step is forward, cross-entropy, backward and Adam (1e-3) for 64-128-64-10 with ReLU on one batch
of 64 real digits. Both peers run the same lines, `build`; graphc wraps the step in
`frontend.compile`. The value printed is the loss after the warm-up.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from harness import Step, main

BATCH = 64
DIGITS = Path(__file__).parent.parent / "examples" / "data" / "digits.csv.gz"


def build(torch: ModuleType, compile: Callable[[Any], Any]) -> Step:
    """The training step, written once for PyTorch and for the frontend."""
    nn, optim = torch.nn, torch.optim
    table = np.loadtxt(DIGITS, delimiter=",", max_rows=BATCH)
    x = torch.tensor((table[:, :64] / 16).astype(np.float32))
    y = torch.tensor(table[:, 64].astype(np.int64))

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    opt = optim.Adam(model.parameters(), lr=1e-3)

    @compile
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return lambda: step(x, y).item()


def graphc_step() -> Step:
    import frontend

    return build(frontend, frontend.compile)


def torch_step() -> Step:
    import torch

    torch.set_num_threads(1)
    return build(torch, lambda step: step)


if __name__ == "__main__":
    main(
        "One training step: MLP 64-128-64-10, ReLU, batch 64, Adam 1e-3, float32",
        {"graphc": graphc_step, "torch": torch_step},
    )

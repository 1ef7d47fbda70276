"""What it costs to call: a small eager op with gradient recording, and a small compiled function.

`--what op` (the default): 1,000 additions of two vectors of 8 that require grad, so that the
microseconds printed are nanoseconds an addition. `--what call`: 100 calls of a compiled function of
one input and 20 parameters of 8 elements each; the microseconds printed are hundredths a call.
`--what fresh`: the same, but no call has seen its input before; making it is part of the time.
PyTorch runs the same lines eagerly, NumPy the bare additions. `--table`: statements that loops
make, each by itself, beside PyTorch (see call_table.py).
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

import numpy as np
from call_table import table_main
from harness import Step, main

ADDITIONS, CALLS, PARAMETERS = 1000, 100, 20
WHAT = os.environ.get("WHAT", "op")


def additions(torch: ModuleType) -> Step:
    x = torch.ones(8, requires_grad=True)
    y = torch.ones(8, requires_grad=True)

    def step() -> float:
        for _ in range(ADDITIONS):
            z = x + y
        return float(z.detach().numpy()[0])

    return step


def calls(torch: ModuleType, compile: Any) -> Step:
    class Sum(torch.nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            parameters = [torch.nn.Parameter(torch.ones(8)) for _ in range(PARAMETERS)]
            self.parts = torch.nn.ParameterList(parameters)

        def forward(self, x: Any) -> Any:
            for part in self.parts:
                x = x + part
            return x

    run = compile(Sum(), fullgraph=True)
    x, ones = torch.ones(8), np.ones(8, np.float32)

    def seen() -> float:
        with torch.no_grad():
            for _ in range(CALLS):
                y = run(x)
        return float(y.numpy()[0])

    def fresh() -> float:
        with torch.no_grad():
            for _ in range(CALLS):
                y = run(torch.from_numpy(ones.copy()))
        return float(y.numpy()[0])

    return fresh if WHAT == "fresh" else seen


def graphc() -> Step:
    import frontend

    if WHAT != "op":
        return calls(frontend, frontend.compile)
    return additions(frontend)


def torch() -> Step:
    import torch

    torch.set_num_threads(1)
    if WHAT != "op":
        return calls(torch, lambda module, **options: module)
    return additions(torch)


def numpy() -> Step:
    x, y = np.ones(8, np.float32), np.ones(8, np.float32)
    parts = [np.ones(8, np.float32) for _ in range(PARAMETERS)]

    def add() -> float:
        for _ in range(ADDITIONS):
            z = np.add(x, y)
        return float(z[0])

    def call() -> float:
        for _ in range(CALLS):
            z = x
            for part in parts:
                z = np.add(z, part)
        return float(z[0])

    return add if WHAT == "op" else call


if __name__ == "__main__":
    if "--table" in sys.argv:
        table_main([argument for argument in sys.argv[1:] if argument != "--table"])
        sys.exit()
    if "--what" in sys.argv:
        at = sys.argv.index("--what")
        os.environ["WHAT"] = sys.argv[at + 1]  # the workers inherit it
        del sys.argv[at : at + 2]
    what = {"op": "eager additions, recorded", "call": "compiled calls",
            "fresh": "compiled calls of fresh inputs"}[os.environ.get("WHAT", "op")]  # fmt: skip
    main(f"Small calls: {what}", {"graphc": graphc, "torch": torch, "numpy": numpy})

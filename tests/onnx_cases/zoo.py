"""Models of other people's libraries, exported with their batch open: `python -m
tests.onnx_cases.zoo [NAME …] [--few] [--part I/N]` (needs tests/zoo/requirements.txt, onnx and
onnxruntime).

Each is run by ONNX Runtime at batches 1, 3 and 7, and loaded again; fails where either differs from
the model by more than 1e-4 of the greatest value, or less than 90 % of the models are exported.
"""

from __future__ import annotations

import argparse
import sys
import warnings
import zlib
from collections import Counter
from typing import Any

import numpy as np

BATCHES = (1, 3, 7)
TOLERANCE = 1e-4
LEAST = 0.9


def leaves(value: Any) -> list[Any]:
    """The tensors in what a model returned, in the order of an export."""
    from frontend.engine.tensors import tree

    found: list[Any] = []
    tree.flatten(value, found)
    return found


def worst(got: list[Any], want: list[Any]) -> float:
    """The greatest difference, of the greatest value."""
    result = 0.0
    for mine, theirs in zip(got, want, strict=True):
        a, b = np.asarray(mine, np.float64), theirs.numpy().astype(np.float64)
        if a.shape != b.shape:
            return float("inf")
        if a.size:
            result = max(result, float(np.abs(a - b).max()) / max(1.0, float(np.abs(b).max())))
    return result


def outcome(name: str) -> str:
    """How a model went: "ok" and figures, or what is in the way."""
    import torch  # the frontend

    from tests.zoo.catalogue import build

    torch.manual_seed(zlib.crc32(name.encode()) % 2**31)
    model, arrays = build(name)
    model.eval()
    names = list(arrays)
    batch = {key: {0: "batch"} for key, array in arrays.items() if array.ndim}
    example = {key: torch.tensor(array) for key, array in arrays.items()}
    program = torch.onnx.export(model, (), kwargs=example, dynamic_shapes=batch)
    back = torch.onnx.load(program.model_proto)
    out, again = 0.0, 0.0
    for size in BATCHES:
        inputs = {
            key: torch.tensor(np.concatenate([array] * size)[:size] if array.ndim else array)
            for key, array in arrays.items()
        }
        with torch.no_grad():
            want = leaves(model(**inputs))
            mine = back(*(inputs[key] for key in names))
        again = max(again, worst([x.numpy() for x in leaves(mine)], want))
        out = max(out, worst([x.numpy() for x in program(*(inputs[k] for k in names))], want))
    figures = f"{out:.1e} elsewhere, {again:.1e} back, {len(program.model_proto.graph.node)} nodes"
    return f"ok: {figures}" if max(out, again) <= TOLERANCE else f"DIFFERS: {figures}"


def main() -> int:
    import frontend

    frontend.install_as("torch")
    from tests.zoo.catalogue import FEW, NAMES

    parser = argparse.ArgumentParser(prog="python -m tests.onnx_cases.zoo")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--part", default="0/1")
    options = parser.parse_args()
    first, step = map(int, options.part.split("/"))
    warnings.simplefilter("ignore")
    tally: Counter[str] = Counter()
    for name in (options.names or (FEW if options.few else NAMES))[first::step]:
        try:
            result = outcome(name)
        except Exception as error:
            text = " ".join(str(error).split())[:200]
            result = f"STOPPED: {type(error).__name__}: {text}"
        tally[result.partition(":")[0]] += 1
        print(f"{name}: {result}", flush=True)
    print(dict(tally))
    return int(tally["ok"] < LEAST * tally.total())


if __name__ == "__main__":
    sys.exit(main())

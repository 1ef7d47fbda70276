"""`python -m tests.zoo --export [NAME …] [--few] [--every N]`: models of the catalogue as ONNX.

Each is exported with its batch open, looked at by onnx.checker, run by ONNX Runtime at batches 1, 3
and 7, and loaded again by our importer: a model passes where all that is within 1e-4 of what it
gives eagerly. Those that draw random numbers are not exported, and not counted.
"""

from __future__ import annotations

import gc
import io
import sys
import time
import zlib
from typing import Any

import numpy as np

TOLERANCE = 1e-4
BATCHES = (1, 3, 7)
AGAIN = 3
"""The batch at which what was exported is run by the importer."""


def arrays_of(value: Any) -> list[np.ndarray]:
    """All tensors of a result, in order."""
    import torch
    from torch.utils import _pytree

    leaves = _pytree.tree_leaves(value)
    return [each.detach().numpy() for each in leaves if isinstance(each, torch.Tensor)]


def at_batch(arrays: dict[str, np.ndarray], batch: int, shared: set[str]) -> dict[str, np.ndarray]:
    """The inputs, repeated or cut along the first axis; `shared` have no batch."""
    cut = {}
    for name, array in arrays.items():
        rows = np.arange(batch) % len(array) if array.ndim else None
        cut[name] = array if name in shared else np.ascontiguousarray(array[rows])
    return cut


def greatest(mine: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """The greatest difference over the greatest value; infinite where shapes or values lack."""
    from tests.zoo.__main__ import relative

    if len(mine) != len(theirs) or not theirs:
        return float("inf")
    return max(relative(x, y) for x, y in zip(mine, theirs))


def exported(name: str) -> tuple[bool, str]:
    """Whether a model passes, and a line about it."""
    import onnxruntime
    import torch

    from tests.zoo.catalogue import build

    torch.manual_seed(zlib.crc32(name.encode()) % 2**31)
    model, arrays = build(name)
    for parameter in model.parameters():  # a head of zeros would hide all before it
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.02)
    model.eval()
    tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
    batch = len(next(iter(arrays.values()), ()))  # some take no tensor
    shared = {key for key, array in arrays.items() if not array.ndim or len(array) != batch}
    start = time.perf_counter()
    with torch.no_grad():
        model(**tensors)  # some keep what the first call computes, which a trace may not
        dim = torch.export.Dim("batch")
        shapes = {key: None if key in shared else {0: dim} for key in arrays}
        program = torch.onnx.export(
            model, (), kwargs=tensors, dynamic_shapes=shapes, input_names=list(arrays)
        )
    seconds = time.perf_counter() - start
    content = program.model_proto.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    worst, taken = 0.0, {each.name for each in session.get_inputs()}
    for size in BATCHES:
        inputs = at_batch(arrays, size, shared)
        with torch.no_grad():
            expected = model(**{key: torch.from_numpy(each) for key, each in inputs.items()})
        expected = arrays_of(expected)
        inputs = {key: each for key, each in inputs.items() if key in taken}
        worst = max(worst, greatest(session.run(None, inputs), expected))
        if size == AGAIN:
            again = torch.onnx.load(io.BytesIO(content))
            with torch.no_grad():
                results = again(*[torch.from_numpy(inputs[key]) for key in program.input_names])
            back = arrays_of(results)
            same = all(np.array_equal(x, y) for x, y in zip(back, expected, strict=True))
            came_back = greatest(back, expected)
    text = f"ONNX Runtime {worst:.1e}, imported {came_back:.1e}{' (the same bits)' * same}"
    passes = max(worst, came_back) <= TOLERANCE
    return passes, f"{text}, {len(program.model_proto.graph.node)} nodes, {seconds:.1f} s"


def main(names: list[str]) -> None:
    import frontend

    frontend.install_as("torch")
    failed = []
    for name in names:
        try:
            passes, text = exported(name)
        except Exception as error:
            passes, text = False, f"{type(error).__name__}: {str(error)[:600]}"
        print(f"{'ok  ' if passes else 'FAIL'} {name}: {text}", flush=True)
        failed += [] if passes else [name]
        gc.collect()
    print(f"exported: {len(names) - len(failed)} of {len(names)}")
    if failed:
        sys.exit("not exported: " + ", ".join(failed))

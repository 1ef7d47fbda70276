"""ONNX's own backend cases, which come with the package `onnx`: a model, inputs, expected outputs.

`run(case)` says how one went: "pass", "wrong", "not here" (OnnxNotHere: by name), "values decide"
(compiled only: a trace cannot know what an operator needs), "eager types" (compiled only: element
types that graphs have no values of), or "error".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import frontend as torch
from frontend.onnx.importing.element_types import stored
from frontend.onnx.importing.errors import OnnxNotHere
from graphc.errors import DTypeError, TraceError

KINDS = ("node", "simple", "pytorch-operator", "pytorch-converted")
RANDOM = ("bernoulli", "random", "training_dropout")
"""Parts of names of cases whose values are another generator's: shapes and dtypes are compared."""


@dataclass(frozen=True)
class Case:
    """One case. `rtol` and `atol` are its own."""

    name: str
    kind: str
    model: Any
    sets: list[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float


@dataclass(frozen=True)
class Outcome:
    """How a case went, and why."""

    name: str
    result: str
    detail: str = ""


def load_cases(kind: str) -> Iterator[Case]:
    """The cases of a kind, in the package's order."""
    import onnx
    from onnx.backend.test.loader import load_model_tests

    for test in load_model_tests(kind=kind):
        model = test.model or onnx.load(Path(test.model_dir) / "model.onnx")
        sets = test.data_sets or [
            (_arrays(folder, "input"), _arrays(folder, "output"))
            for folder in sorted(Path(test.model_dir).glob("test_data_set_*"))
        ]
        yield Case(test.name, kind, model, sets, test.rtol, test.atol)


def _arrays(folder: Path, what: str) -> list[Any]:
    import onnx

    result = []
    for path in sorted(folder.glob(f"{what}_*.pb"), key=lambda p: int(p.stem.split("_")[-1])):
        tensor = onnx.TensorProto()
        tensor.ParseFromString(path.read_bytes())
        result.append(tensor)
    return result


def _array(value: Any) -> Any:
    import onnx

    return stored(onnx.numpy_helper.to_array(value) if hasattr(value, "data_type") else value)


def run(case: Case, compiled: bool = False) -> Outcome:
    """Run a case, eagerly or compiled."""
    try:
        model = torch.onnx.load(case.model)
        call = torch.compile(model, threads=1, fullgraph=True) if compiled else model
        for inputs, expected in case.sets:
            given = {name: _array(value) for name, value in zip(model.input_names, inputs)}
            known = model.number_inputs if compiled else ()
            with torch.no_grad():
                got = call(*(a if n in known else torch.from_numpy(a) for n, a in given.items()))
            got = got if isinstance(got, tuple) else (got,)
            problem = difference(case, got, [_array(value) for value in expected])
            if problem:
                return Outcome(case.name, "wrong", problem)
    except OnnxNotHere as error:
        cause = error.__cause__
        known = isinstance(cause, NotImplementedError) and "_cpu" in str(cause)
        return Outcome(case.name, "eager types" if known and compiled else "not here", str(error))
    except TraceError as error:
        return Outcome(case.name, "values decide" if compiled else "error", str(error))
    except DTypeError as error:
        return Outcome(case.name, "eager types" if compiled else "error", str(error))
    except Exception as error:
        return Outcome(case.name, "error", f"{type(error).__name__}: {error}")
    return Outcome(case.name, "pass")


def _in_double(model: Any) -> Any:
    """The model with casts to float64 in the place of those to smaller floats."""
    import onnx

    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graphs = [changed.graph]
    while graphs:
        for node in graphs.pop().node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    graphs.append(attribute.g)
                if node.op_type == "Cast" and attribute.i in (1, 10, 16):
                    attribute.i = 11
    return changed


def run_gradients(case: Case) -> Outcome:
    """Compare the gradient of a case's floats along a direction with numbers: "pass", "wrong",
    "kink" where the two sides have slopes of their own, or "no gradient" where there is none."""
    random = np.random.default_rng(0)
    try:
        model = torch.onnx.load(_in_double(case.model)).double()
        arrays = [_array(value) for value in case.sets[0][0]]
        moved = [i for i, a in enumerate(arrays) if a.dtype.kind == "f" and a.dtype.itemsize > 3]
        known = [name in model.number_inputs for name in model.input_names]
        moved = [i for i in moved if not known[i]]
        steps = {i: random.standard_normal(arrays[i].shape) for i in moved}
        weights: list[Any] = []

        def loss(by: float) -> tuple[Any, list[Any]]:
            given = [
                a if known[i] else torch.tensor(
                    a.astype(np.float64) + by * steps[i] if i in steps else a,
                    requires_grad=i in steps and by == 0,
                )
                for i, a in enumerate(arrays)
            ]  # fmt: skip
            results = model(*given)
            results = results if isinstance(results, tuple) else (results,)
            smooth = [r for r in results if r.dtype is torch.float64]
            while len(weights) < len(smooth):
                weights.append(torch.tensor(random.standard_normal(smooth[len(weights)].shape)))
            return sum((r * w).sum() for r, w in zip(smooth, weights)), given

        total, given = loss(0)
        if not moved or not isinstance(total, torch.Tensor) or not total.requires_grad:
            return Outcome(case.name, "no gradient")
        total.backward()
        slope = sum(
            float((given[i].grad * torch.tensor(steps[i])).sum())
            for i in moved if given[i].grad is not None
        )  # fmt: skip
        h = 1e-6
        with torch.no_grad():
            above, at, below = (float(loss(by)[0]) for by in (h, 0, -h))
        number = (above - below) / (2 * h)
        sides = abs((above - at) - (at - below)) / h
        if sides > 1e-3 + 1e-3 * abs(number):
            return Outcome(case.name, "kink")
    except Exception as error:
        return Outcome(case.name, "error", f"{type(error).__name__}: {error}")
    if not np.isfinite(number) or abs(slope - number) <= 1e-5 + 1e-4 * abs(number):
        return Outcome(case.name, "pass")
    return Outcome(case.name, "wrong", f"{slope} by backward, {number} by numbers")


def difference(case: Case, got: Any, expected: Any) -> str:
    """What is wrong with results; "" where nothing is."""
    if len(got) != len(expected) or not expected:
        return f"{len(got)} results, not {len(expected)}"
    for position, (mine, theirs) in enumerate(zip(got, expected)):
        mine = mine.detach().numpy()
        if mine.shape != theirs.shape:
            return f"result {position}: shape {mine.shape}, not {theirs.shape}"
        if mine.dtype != theirs.dtype:
            return f"result {position}: dtype {mine.dtype}, not {theirs.dtype}"
        if any(part in case.name for part in RANDOM):
            continue
        wide = np.complex128 if theirs.dtype.kind == "c" else None
        wide = wide or (theirs.dtype if theirs.dtype.kind in "iub" else np.float64)
        # As ONNX's own runner has it: two units in the last place of bfloat16.
        rtol = max(case.rtol, 2**-6) if theirs.dtype.name == "bfloat16" else case.rtol
        if not np.allclose(
            mine.astype(wide), theirs.astype(wide), rtol=rtol, atol=case.atol, equal_nan=True
        ):
            worst = np.abs(mine.astype(np.complex128) - theirs.astype(np.complex128)).max()
            return f"result {position}: values differ by up to {worst:.3g}"
    return ""

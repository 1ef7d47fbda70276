"""ONNX models that ship in packages: ours, imported and compiled with open sizes, and ONNX Runtime.

    pip download --no-deps -d wheels silero-vad magika nudenet rapidocr-onnxruntime ddddocr
    python benchmarks/onnx_models.py wheels/*.whl [--only NAME …] [--rounds 10] [--json]
    python benchmarks/onnx_models.py wheels/*.whl --check

An argument is a wheel, or the name of a package that is installed. Of each model that is known
here, every case of sizes is run; one compile serves all sizes from 2 up. Each model and peer has a
process of its own, on one processor; the processes of a model take turns, and the minimum of many
calls counts, in processor time. Inputs stay where they are; results are new arrays. `--check`
compares results alone and times nothing. A result that is off by more than 1e-4 of the greatest
prints WRONG, and more than one compile (batch 1 has one of its own) MANY; both make the exit
status 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import Worker, processor, stay_on

TOLERANCE = 1e-4
TURN_MS = 120.0
Inputs = list[Any]


@dataclass(frozen=True)
class PackagedModel:
    """A model in a package: where, and what it takes for each case of sizes."""

    package: str
    path: str
    cases: tuple[tuple[int, ...], ...]
    inputs: Callable[..., Inputs]

    @property
    def name(self) -> str:
        return f"{self.package}/{Path(self.path).stem}"

    @property
    def has_single(self) -> bool:
        """Whether a case has batch 1 where others have more: size 1 has code of its own."""
        return len({case[0] == 1 for case in self.cases}) == 2


def _images(*shape: int) -> Inputs:
    return [np.random.default_rng(1).random(shape, np.float32)]


def _image_batch(batch: int, channels: int, height: int, width: int) -> Inputs:
    return _images(batch, channels, height, width)


def _speech(batch: int) -> Inputs:
    """A window of sound with its context, a state, 16 kHz."""
    random = np.random.default_rng(1)
    sound = (random.standard_normal((batch, 576)) * 0.1).astype(np.float32)
    return [sound, np.zeros((2, batch, 128), np.float32), np.array(16000, np.int64)]


def _bytes(batch: int) -> Inputs:
    return [np.random.default_rng(1).integers(0, 257, (batch, 2048), np.int32)]


_OCR = ((1, 3, 48, 160), (1, 3, 48, 320), (6, 3, 48, 320))
_WIDTHS = ((1, 1, 64, 96), (1, 1, 64, 160))
MODELS = (
    PackagedModel("silero_vad", "data/silero_vad_16k_op15.onnx", ((1,), (4,), (7,)), _speech),
    PackagedModel("silero_vad", "data/silero_vad.onnx", ((1,), (4,), (7,)), _speech),
    PackagedModel("magika", "models/standard_v3_3/model.onnx", ((1,), (8,), (13,)), _bytes),
    PackagedModel("nudenet", "320n.onnx", ((1, 3, 320, 320), (1, 3, 320, 256)), _image_batch),
    PackagedModel(
        "rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx",
        ((1, 3, 320, 320), (1, 3, 480, 640)), _image_batch,
    ),
    PackagedModel(
        "rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", _OCR, _image_batch
    ),
    PackagedModel(
        "rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        ((1, 3, 48, 192), (6, 3, 48, 192)), _image_batch,
    ),
    PackagedModel("ddddocr", "common.onnx", _WIDTHS, _image_batch),
    PackagedModel("ddddocr", "common_det.onnx", ((1, 3, 416, 416),), _image_batch),
)  # fmt: skip


# -- where models lie -----------------------------------------------------------------------------


def found(argument: str, folder: Path) -> dict[str, Path]:
    """By name the files of the models in a wheel or an installed package."""
    if argument.endswith(".whl"):
        with zipfile.ZipFile(argument) as wheel:
            wanted = {f"{each.package}/{each.path}" for each in MODELS} & set(wheel.namelist())
            wheel.extractall(folder, sorted(wanted))
        return {m.name: folder / m.package / m.path for m in MODELS
                if f"{m.package}/{m.path}" in wanted}  # fmt: skip
    package = argument.replace("-", "_")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{argument} is neither a wheel nor a package that is installed")
    places = [Path(place) for place in spec.submodule_search_locations]
    return {m.name: place / m.path for m in MODELS for place in places
            if m.package == package and (place / m.path).exists()}  # fmt: skip


# -- a peer's process -----------------------------------------------------------------------------


Runner = Callable[[], list[Any]]


class Graphc:
    """Compiled, weights frozen, sizes open as the model says; what is one number (a sampling rate)
    is given as a number."""

    def __init__(self, path: str):
        import frontend as torch

        self.torch = torch
        self.model = torch.freeze(torch.onnx.load(path).eval())
        self.compiled = torch.compile(self.model, threads=1, fullgraph=True)

    def runner(self, inputs: Inputs) -> Runner:
        torch, compiled = self.torch, self.compiled
        arguments = [torch.from_numpy(each) if each.ndim else each for each in inputs]

        def step() -> list[Any]:
            with torch.no_grad():
                result = compiled(*arguments)
            return [each.numpy() for each in (result if isinstance(result, tuple) else (result,))]

        return step

    @property
    def compiles(self) -> int:
        return len(self.compiled.trace_reasons)


class OnnxRuntime:
    compiles = 0

    def __init__(self, path: str):
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        settings.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(
            path, settings, providers=["CPUExecutionProvider"]
        )
        self.names = [each.name for each in self.session.get_inputs()]

    def runner(self, inputs: Inputs) -> Runner:
        feed = dict(zip(self.names, inputs, strict=True))
        return lambda: list(self.session.run(None, feed))


PEERS: dict[str, Any] = {"graphc": Graphc, "onnxruntime": OnnxRuntime}


def serve(options: argparse.Namespace) -> None:
    """Runs every case once, largest sizes first, writes the results, and answers `turn CASE`."""
    stay_on(1)
    model = next(each for each in MODELS if each.name == options.model)
    peer = PEERS[options.worker](options.path)
    runners = [peer.runner(model.inputs(*case)) for case in model.cases]
    arrays = {}
    for position, step in reversed(list(enumerate(runners))):
        arrays |= {f"{position}.{i}": each for i, each in enumerate(step())}
    np.savez(Path(options.folder) / f"{options.worker}.npz", **arrays)
    print(json.dumps({"ready": True, "compiles": peer.compiles}), flush=True)
    for line in sys.stdin:
        step = runners[int(line.split()[1])]
        clock = time.process_time_ns  # others may be running
        least, stop = math.inf, clock() + TURN_MS * 1e6
        while math.isinf(least) or clock() < stop:
            start = clock()
            step()
            least = min(least, clock() - start)
        print(json.dumps({"us": least / 1e3}), flush=True)


# -- the measuring side ---------------------------------------------------------------------------


def off(folder: Path, case: int) -> float:
    """How far results are apart: over the greatest, or over 1 where all are less."""
    worst = 0.0
    with np.load(folder / "graphc.npz") as mine, np.load(folder / "onnxruntime.npz") as theirs:
        if sorted(mine.files) != sorted(theirs.files):
            return math.inf
        for name in [each for each in theirs.files if each.startswith(f"{case}.")]:
            x, y = mine[name].astype(np.float64), theirs[name].astype(np.float64)
            if x.shape != y.shape or not np.isfinite(x).all():
                return math.inf
            worst = max(worst, np.abs(x - y).max(initial=0) / max(np.abs(y).max(initial=0), 1.0))
    return float(worst)


def measure(model: PackagedModel, path: Path, rounds: int) -> list[dict[str, Any]]:
    """A row for each case of sizes; times in microseconds."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        arguments = ["--model", model.name, "--path", str(path), "--folder", name]
        workers = [stack.enter_context(Worker(peer, arguments)) for peer in PEERS]
        rows = []
        for position, case in enumerate(model.cases):
            least = dict.fromkeys(PEERS, math.inf)
            for turn in range(rounds):
                for worker in workers[turn % 2 :] + workers[: turn % 2]:
                    us = worker.ask(f"turn {position}")["us"]
                    least[worker.name] = min(least[worker.name], us)
            rows.append({
                "model": model.name, "sizes": list(case), "off": off(Path(name), position),
                "compiles": workers[0].greeting["compiles"], "allowed": 1 + model.has_single,
                "us": least if rounds else {},
            })  # fmt: skip
        return rows


def shown(row: dict[str, Any]) -> str:
    """A line of the table."""
    wrong = row["off"] > TOLERANCE
    many = row["compiles"] > row["allowed"]
    sizes = "x".join(map(str, row["sizes"]))
    line = f"{row['model']:<52}{sizes:<14}{row['off']:>9.1e}{row['compiles']:>4}"
    if row["us"]:
        mine, theirs = row["us"]["graphc"], row["us"]["onnxruntime"]
        line += f"{mine:>11.1f}{theirs:>11.1f}{mine / theirs:>7.2f}"
    return line + " WRONG" * wrong + " MANY" * many


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("packages", nargs="*", help="wheels, or names of installed packages")
    parser.add_argument("--only", nargs="*", default=(), help="models whose names have this in")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each peer (default: 10)")
    parser.add_argument("--check", action="store_true", help="compare results, time nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    for hidden in ("--worker", "--model", "--path", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        files: dict[str, Path] = {}
        for each in options.packages:
            files |= found(each, Path(folder))
        wanted = options.only or [""]
        chosen = [m for m in MODELS if m.name in files and any(text in m.name for text in wanted)]
        if not chosen:
            parser.error("none of these has a model that is known here")
        rows = []
        for model in chosen:
            measured = measure(model, files[model.name], 0 if options.check else options.rounds)
            rows += measured
            for row in measured:
                print(shown(row), file=sys.stderr if options.json else sys.stdout, flush=True)
    ratios = [row["us"]["graphc"] / row["us"]["onnxruntime"] for row in rows if row["us"]]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
    if options.json:
        print(json.dumps({"processor": processor(), "rows": rows, "mean": mean}, indent=2))
    elif mean is not None:
        print(f"{processor()}: geometric mean {mean:.2f}, greatest {max(ratios):.2f}")
    bad = any(row["off"] > TOLERANCE or row["compiles"] > row["allowed"] for row in rows)
    raise SystemExit(int(bad))


if __name__ == "__main__":
    main()

"""ONNX models that ship in packages: ours, imported and compiled with open sizes, and ONNX Runtime.

    pip download --no-deps -d wheels silero-vad magika nudenet rapidocr-onnxruntime ddddocr
    python benchmarks/onnx_models.py wheels/*.whl [--only NAME …] [--rounds 10] [--json]
    python benchmarks/onnx_models.py wheels/*.whl --check

An argument is a wheel, or the name of a package that is installed. Of each model that is known
here, every case of sizes is run: one compile serves them all. Each model and peer has a process of
its own, on one processor; the processes of a model take turns, and the minimum of many calls
counts. Inputs stay where they are; results are new arrays. `--check` compares results alone and
times nothing. A result that is off by more than 1e-4 of the greatest prints WRONG, and more than
one compile MANY; both make the exit status 1.
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

PEERS = ("graphc", "onnxruntime")
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
    PackagedModel("silero_vad", "data/silero_vad_16k_op15.onnx", ((1,), (4,)), _speech),
    PackagedModel("silero_vad", "data/silero_vad.onnx", ((1,), (4,)), _speech),
    PackagedModel("magika", "models/standard_v3_3/model.onnx", ((1,), (8,)), _bytes),
    PackagedModel("nudenet", "320n.onnx", ((1, 3, 320, 320), (2, 3, 320, 256)), _image_batch),
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
    PackagedModel("ddddocr", "common_old.onnx", _WIDTHS, _image_batch),
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


Runner = tuple[Callable[[], list[Any]], Callable[[], int]]


def graphc(path: str) -> Callable[[Inputs], Runner]:
    """Compiled frozen, sizes open as the model says; numbers that decide are given as numbers."""
    import frontend as torch

    model = torch.freeze(torch.onnx.load(path).eval())
    compiled = torch.compile(model, threads=1, fullgraph=True)

    def prepared(inputs: Inputs) -> Runner:
        arguments = [
            each if name in model.number_inputs else torch.from_numpy(each)
            for name, each in zip(model.input_names, inputs)
        ]

        def step() -> Any:
            with torch.no_grad():
                return compiled(*arguments)

        def arrays() -> list[Any]:
            result = step()
            return [r.numpy() for r in (result if isinstance(result, tuple) else (result,))]

        return arrays, lambda: compiled.compiles

    return prepared


def onnxruntime(path: str) -> Callable[[Inputs], Runner]:
    import onnxruntime as runtime

    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 3
    session = runtime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def prepared(inputs: Inputs) -> Runner:
        feed = dict(zip(names, inputs))
        return lambda: session.run(None, feed), lambda: 0

    return prepared

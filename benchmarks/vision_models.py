"""ResNet-50 and MobileNetV2 of torchvision on one 224x224 image: ours, PyTorch, ONNX Runtime.

    python benchmarks/vision_models.py resnet50 [--rounds 10] [--steps 20] [--json]

Ours is frozen, and runs torchvision's own code over the frontend. Needs torchvision (`--no-deps`
will do) and the peers. Weights are drawn anew, the same ones for all.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from harness import Step, main

MODELS = ("resnet50", "mobilenet_v2")
SIDE = 224
MODEL = "GRAPHC_VISION_MODEL"
"""Where the processes of the peers find which one is measured."""


def image() -> Any:
    return np.random.default_rng(1).standard_normal((1, 3, SIDE, SIDE), np.float32)


def built(torch: Any) -> Any:
    """The model in eval mode, with weights that depend on their names and shapes alone."""
    import torchvision

    model = getattr(torchvision.models, os.environ[MODEL])().eval()
    rng = np.random.default_rng(0)
    state = {}
    for name, tensor in model.state_dict().items():
        shape = tuple(tensor.shape)
        drawn = rng.standard_normal(shape) * (2 / max(np.prod(shape[1:]), 1)) ** 0.5
        if name.endswith(("running_var", "bias", "running_mean")) or len(shape) == 1:
            drawn = np.full(shape, 1.0 if name.endswith(("running_var", "weight")) else 0.0)
        state[name] = torch.tensor(np.asarray(drawn, str(tensor.dtype).split(".")[-1]))
    model.load_state_dict(state)
    return model


def graphc() -> Step:
    import frontend as torch

    torch.install_as("torch")
    model = torch.freeze(built(torch))
    compiled = torch.compile(model, threads=1, fullgraph=True)
    return _stepping(torch, compiled)


def pytorch() -> Step:
    torch, model = _in_pytorch()
    model = model.to(memory_format=torch.channels_last)
    return _stepping(torch, model, memory_format=torch.channels_last)


def _stepping(torch: Any, model: Callable[..., Any], **layout: Any) -> Step:
    x = torch.tensor(image())
    if layout:
        x = x.contiguous(**layout)

    def step() -> float:
        with torch.no_grad():
            return float(model(x)[0, 0])

    return step


def _in_pytorch() -> tuple[Any, Any]:
    import torch

    torch.set_num_threads(1)
    # What torchvision registers there, this PyTorch does not take; its models need none of it.
    sys.modules["torchvision._meta_registrations"] = ModuleType("_meta_registrations")
    return torch, built(torch)


def onnxruntime() -> Step:
    import onnxruntime

    torch, model = _in_pytorch()
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.onnx")
        torch.onnx.export(
            model, (torch.tensor(image()),), path, dynamo=False, opset_version=20,
            input_names=["x"], output_names=["out"],
        )  # fmt: skip
        session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("x", image())
    binding.bind_output("out", "cpu")

    def step() -> float:
        session.run_with_iobinding(binding)
        return float(binding.copy_outputs_to_cpu()[0][0, 0])

    return step


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in MODELS:
        os.environ[MODEL] = sys.argv.pop(1)
    if MODEL not in os.environ:
        raise SystemExit(f"usage: python benchmarks/vision_models.py {'|'.join(MODELS)} [options]")
    main(
        f"{os.environ[MODEL]}, {SIDE}x{SIDE}, batch 1, frozen",
        {"graphc": graphc, "torch": pytorch, "onnxruntime": onnxruntime},
    )

"""One process: imports a package on PyTorch or on the frontend and runs its script.

python package_worker.py oracle|frontend NAME FOLDER

FOLDER/SIDE.npz holds what the script showed; standard output ends in a line of JSON: how far it
came, and where it stopped.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import json
import os
import random
import resource
import sys
import traceback
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np

STEPS = 3
SECONDS = 240
"""Of processor time."""


class Bench:
    """What a script has: tensors of the same numbers on both sides, and `show` for its results."""

    def __init__(self, torch: Any):
        self.torch = torch
        self.random = np.random.default_rng(0)
        self.shown: list[np.ndarray] = []
        self.compiled: str = "-"
        self.checkout = Path()

    @property
    def ours(self) -> bool:
        """Whether this is the frontend's side."""
        return bool(self.torch.__version__.endswith("graphc"))

    def draw(self, *shape: int) -> Any:
        """Standard normal numbers, f32."""
        return self.torch.from_numpy(self.random.standard_normal(shape, np.float32))

    def uniform(self, *shape: int) -> Any:
        """Numbers between 0 and 1, f32."""
        return self.torch.from_numpy(self.random.random(shape, np.float32))

    def integers(self, below: int, *shape: int) -> Any:
        """Whole numbers from 0 to `below`, i64."""
        return self.torch.from_numpy(self.random.integers(0, below, shape))

    def fill(self, module: Any) -> Any:
        """The module with parameters of these numbers, by their names; buffers as they are."""
        random = np.random.default_rng(1)
        with self.torch.no_grad():
            for _, p in sorted(module.named_parameters()):
                if p.is_floating_point():
                    scale = 0.5 / max(p[0].numel() if p.dim() > 1 else 1, 1) ** 0.5
                    values = scale * random.standard_normal(tuple(p.shape)) + (p.dim() == 1)
                    p.copy_(self.torch.from_numpy(np.asarray(values, np.float32)))
        return module

    def show(self, *values: Any) -> None:
        """Results: tensors, arrays, numbers, and lists and dicts of them."""
        for value in values:
            if isinstance(value, dict):
                self.show(*[value[key] for key in sorted(value)])
            elif isinstance(value, list | tuple):
                self.show(*value)
            elif isinstance(value, self.torch.Tensor):
                self.shown.append(value.detach().numpy().copy())
            elif value is not None:
                self.shown.append(np.asarray(value))

    def train(self, module: Any, *inputs: Any, loss: Any = None, compiled: bool = False) -> None:
        """Show the losses of some steps; `compiled`: hold those of a compiled step to them."""
        again = copy.deepcopy(module)
        losses = self._losses(module, inputs, loss, lambda step: step)
        self.show(losses)
        if compiled and self.ours:
            self.compiled = "refused"
            both = np.array([losses, self._losses(again, inputs, loss, self.torch.compile)])
            same = np.allclose(*both, rtol=1e-4, atol=1e-6)
            self.compiled = "equal" if same else f"differs: {both.tolist()}"

    def _losses(self, module: Any, inputs: Any, loss: Any, by: Any) -> list[float]:
        parameters = [p for p in module.parameters() if p.requires_grad]
        optimizer = self.torch.optim.SGD(parameters, lr=0.01)
        loss = loss or (lambda result: _first(result).square().mean())

        def step(*inputs: Any) -> Any:
            optimizer.zero_grad()
            value = loss(module(*inputs))
            value.backward()
            optimizer.step()
            return value.detach()

        run = by(step)
        return [float(run(*inputs)) for _ in range(STEPS)]


def _first(result: Any) -> Any:
    """The first tensor of a result."""
    while not hasattr(result, "square"):
        result = next(iter(result.values() if isinstance(result, dict) else result))
    return result


def _without_libraries() -> None:
    """torchvision and torchaudio without their compiled libraries, which load beside the PyTorch
    they were made for alone."""
    part = "torchvision._meta_registrations"
    sys.modules[part] = types.ModuleType(part)
    part = "torchaudio._extension"
    sys.modules[part] = types.ModuleType(part)
    facts = {"_IS_TORCHAUDIO_EXT_AVAILABLE": False, "_IS_ALIGN_AVAILABLE": False}
    vars(sys.modules[part]).update(facts, fail_if_no_align=lambda function: function)
    _suppress()


def _suppress() -> None:
    """torchvision's `nms` for PyTorch's side, as its documentation has it: by falling scores, boxes
    that cover none of those kept before them by more than `iou_threshold`."""
    import torch

    if importlib.util.find_spec("torchvision") is None:
        return
    import torchvision.extension
    from torchvision.ops import box_iou

    def nms(boxes: Any, scores: Any, iou_threshold: float) -> Any:
        covered = box_iou(boxes, boxes) > iou_threshold
        kept: list[int] = []
        for each in scores.argsort(descending=True, stable=True).tolist():
            if not covered[each, kept].any():
                kept.append(each)
        return torch.tensor(kept, dtype=torch.int64)

    signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    torch.library.define("torchvision::nms", signature)
    torch.library.impl("torchvision::nms", "CPU", nms)
    torchvision.extension._has_ops = lambda: True


def run(side: str, name: str, into: Path) -> dict[str, Any]:
    """What became of a package: which stage was reached, and the error that ended it."""
    report: dict[str, Any] = {"imports": False, "works": False, "compiled": "-"}
    bench = None
    try:
        if side == "frontend":
            from frontend.install import install_as

            install_as("torch")
        else:
            _without_libraries()
        import torch

        from tests.zoo import (  # noqa: F401 (they declare)
            package_domains,
            package_frameworks,
            package_scripts,
            package_unseen,
            repositories,
        )
        from tests.zoo.package_list import PACKAGES

        package = PACKAGES[name]
        if package.checkout:
            sys.path.insert(
                0, os.path.join(os.environ["CHECKOUTS"], package.checkout, package.path)
            )
        for module in package.modules:
            importlib.import_module(module)
        report["imports"] = True
        for seed in (torch.manual_seed, np.random.seed, random.seed):
            seed(0)
        bench = Bench(torch)
        bench.checkout = Path(sys.path[0])
        package.script(bench)
        report["works"] = True
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        text = (str(error).strip().splitlines() or [""])[0]
        report["error"] = f"{type(error).__name__}: {text}"
        report["where"] = [f"{f.filename}:{f.lineno} {f.line}" for f in frames[-4:]]
    if bench is not None:
        report["compiled"] = bench.compiled
        np.savez(into / f"{side}.npz", *bench.shown)
    return report


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    chosen_side, chosen, results = sys.argv[1], sys.argv[2], Path(sys.argv[3]).resolve()
    (results / chosen_side).mkdir()
    os.chdir(results / chosen_side)  # what one side's script writes the other's does not see
    print("\n" + json.dumps(run(chosen_side, chosen, results)), flush=True)

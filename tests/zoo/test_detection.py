"""torchvision's detection models on the frontend, from the seed alone, against the losses that
PyTorch gave with torchvision's own compiled operators, in float64."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("torchvision") is None:
    pytest.skip("not installed: torchvision", allow_module_level=True)

SCRIPT = """
import json, sys
import frontend
frontend.install_as("torch")
frontend.set_eager_backend("numpy")  # no kernel is compiled for one step
import numpy as np
import torch
from torchvision.models import detection

torch.manual_seed(0)
make = getattr(detection, sys.argv[1])
model = make(weights=None, weights_backbone=None, num_classes=5, min_size=64, max_size=96).double()
torch.set_default_dtype(torch.float64)
random = np.random.default_rng(0)
images = [torch.from_numpy(random.random((3, *size), dtype=np.float32).astype(np.float64))
          for size in ((70, 64), (64, 80))]
boxes = torch.tensor([[5.0, 6, 40, 44], [20, 10, 60, 50]])
targets = [{"boxes": boxes, "labels": torch.tensor([1, 3])} for _ in images]
model.eval()
with torch.no_grad():
    found = model(images)
model.train()
torch.manual_seed(1)
losses = model(images, targets)
sum(losses.values()).backward()
norm = sum(float((p.grad ** 2).sum()) for p in model.parameters() if p.grad is not None) ** 0.5
print(json.dumps({"found": [len(each["boxes"]) for each in found], "gradients": norm,
                  **{name: float(loss.detach()) for name, loss in losses.items()}}))
"""
EXPECTED: dict[str, Any] = {
    "fasterrcnn_resnet50_fpn": {
        "found": [100, 100], "gradients": 173.42233834907205,
        "loss_classifier": 1.8355132759214925, "loss_box_reg": 0.25921240109475296,
        "loss_objectness": 0.7122741341590881, "loss_rpn_box_reg": 0.03167926765374354,
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_a_step(name: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, name], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stderr[-2000:]
    actual, expected = json.loads(result.stdout.splitlines()[-1]), EXPECTED[name]
    assert actual.pop("found") == expected["found"]
    # Drawn weights are 4 ulp of float32 apart, which puts some activations across their kinks.
    bounds = {"gradients": 2e-3}
    for key, value in actual.items():
        assert value == pytest.approx(expected[key], rel=bounds.get(key, 1e-5)), key

"""docs/coverage.md says what the frontend has: it is what its command writes today."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"


def coverage() -> Any:
    spec = importlib.util.spec_from_file_location("coverage_of_pytorch", DOCS / "coverage.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_current() -> None:
    text = coverage().table()
    if os.environ.get("GRAPHC_UPDATE_DOCS"):
        (DOCS / "coverage.md").write_text(text, "utf-8")
    written = (DOCS / "coverage.md").read_text("utf-8")
    assert written == text, "run `python docs/coverage.py`"


def test_what_the_frontend_promises_is_there() -> None:
    """Every layer, loss and container that the first release of the frontend names."""
    module = coverage()
    known = dict(module.public_names())
    for space, names in {
        "torch.nn": "Linear Conv2d ConvTranspose2d MaxPool2d BatchNorm2d LSTM GRU Transformer "
        "MultiheadAttention CrossEntropyLoss ModuleDict ParameterList Upsample PixelShuffle",
        "torch": "einsum topk sort cumsum gather scatter where conv2d from_dlpack",
        "torch.optim": "SGD Adam AdamW RMSprop Adagrad",
        "torch.autograd": "Function grad gradcheck detect_anomaly",
    }.items():
        target = module.place(space)
        for name in names.split():
            assert name in known[space] and hasattr(target, name), f"{space}.{name}"

"""`torch.utils.tensorboard`: event files for TensorBoard, by the package tensorboard, which is
imported when a name of it is asked for. Raises ModuleNotFoundError then where it is not installed.

writer is the class, summaries what it writes, arrays what it is given; model_graph draws a model,
embeddings shows points.
"""

from __future__ import annotations

from typing import Any

from graphc.system import import_module

_NAMES = ("FileWriter", "SummaryWriter")


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module("frontend.utils.tensorboard.writer"), name)
    if name == "RecordWriter":
        return import_module("tensorboard.summary.writer.record_writer").RecordWriter
    raise AttributeError(f"module 'frontend.utils.tensorboard' has no attribute {name!r}")

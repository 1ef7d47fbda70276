"""`torch.export`: a Module as a graph of its own, forward alone.

- capture: the traced graph, and what its inputs are
- dynamic_shapes: which sizes are open, as users say it
- exporting: `export`, `save`, `load`
- program: the exported program, and the Module that runs it
- signature: what inputs and outputs are
"""

from __future__ import annotations

from frontend.export.dynamic_shapes import Dim, dims
from frontend.export.exporting import ExportError, export, load, save
from frontend.export.program import ExportedProgram
from frontend.export.signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from frontend.namespace.stubs import stubs

export_for_training = export

_ABSENT = stubs("export")
globals().update(_ABSENT)
__all__ = [
    "Dim", "ExportError", "ExportGraphSignature", "ExportedProgram", "InputKind", "InputSpec",
    "OutputKind", "OutputSpec", "TensorArgument", "dims", "export", "export_for_training", "load",
    "save", *_ABSENT,
]  # fmt: skip

"""`torch.export`: not here; each name raises NotImplementedError when used."""

from __future__ import annotations

from enum import Enum

from frontend.namespace.absent import absent_names


class Dim(Enum):
    """How a dimension is to be exported."""

    AUTO = "auto"
    STATIC = "static"
    DYNAMIC = "dynamic"


_ABSENT = absent_names(
    "export",
    "ExportGraphSignature ExportedProgram ShapesCollection draft_export export "
    "export_for_training load register_dataclass save unflatten",
    "frontend.compile runs a function as native code, `graphc dump` prints its graph",
)
globals().update(_ABSENT)
__all__ = ["Dim", *_ABSENT]

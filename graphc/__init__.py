"""graphc: a static-graph compiler for neural networks.

    g = graphc.GraphBuilder("affine")
    x, w = g.input("x", "f32[32,784]"), g.input("w", "f32[784,10]")
    executable = graphc.compile(g.finish(x @ w))
    (y,) = executable(x_array, w_array)

Graph → (autodiff, passes) → Plan → Loops → LLVM → Executable. Everything heavy (networkx, llvmlite)
is imported when it is first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphc import ops
from graphc.config import VERSION
from graphc.errors import (
    ArgumentError,
    DTypeError,
    GraphError,
    IndexRangeError,
    LoweringError,
    ParseError,
    ShapeError,
    TraceError,
    VerifyError,
)
from graphc.ir.builder import GraphBuilder
from graphc.ir.nodes import Constant, Graph, Location, Node, Value
from graphc.ir.types import DType, TensorType
from graphc.ir.verifier import verify
from graphc.system import IMPORTING, import_module

if TYPE_CHECKING:
    from graphc.autodiff.joint import joint
    from graphc.ir.parser import parse
    from graphc.ops.interpreter import run
    from graphc.passes.pipelines import optimize
    from graphc.runtime.compile import compile
    from graphc.runtime.executable import Executable

__version__ = VERSION

_LAZY = {
    "joint": "graphc.autodiff.joint",
    "parse": "graphc.ir.parser",
    "run": "graphc.ops.interpreter",
    "optimize": "graphc.passes.pipelines",
    "compile": "graphc.runtime.compile",
    "Executable": "graphc.runtime.executable",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'graphc' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    if name == "compile":
        value = _dumping(value)
    globals()[name] = value
    return value


def _dumping(compile: Any) -> Any:
    """`compile`, which with the setting GRAPHC_DUMP also writes what it compiles."""
    with IMPORTING:
        from graphc.config import dump_folder

    folder = dump_folder()
    if folder is None:
        return compile
    with IMPORTING:
        from graphc.debug.dump_files import dumping

    return dumping(compile, folder)


__all__ = [
    "ArgumentError",
    "Constant",
    "DType",
    "DTypeError",
    "Executable",
    "Graph",
    "GraphBuilder",
    "GraphError",
    "IndexRangeError",
    "Location",
    "LoweringError",
    "Node",
    "ParseError",
    "ShapeError",
    "TensorType",
    "TraceError",
    "Value",
    "VerifyError",
    "compile",
    "joint",
    "ops",
    "optimize",
    "parse",
    "run",
    "verify",
]

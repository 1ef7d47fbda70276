"""`torch._dynamo`: names that libraries mark their code with. `frontend.compile` traces by running
the function, so that most marks have nothing to do."""

from __future__ import annotations

from typing import Any, NoReturn

from frontend._dynamo import compiled_autograd, config, eval_frame, utils
from frontend._dynamo.eval_frame import OptimizedModule
from frontend.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    mark_dynamic,
    mark_static,
    reset,
)
from frontend.namespace.stubs import stubs

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result",
    "compiled_autograd", "config", "disable",
    "disallow_in_graph", "eval_frame", "explain", "export", "forbid_in_graph", "graph_break",
    "is_compiling", "is_dynamo_supported", "list_backends", "mark_dynamic", "mark_static",
    "mark_static_address", "maybe_mark_dynamic", "reset", "utils",
]  # fmt: skip
globals().update(stubs("_dynamo"))


maybe_mark_dynamic = mark_dynamic


def disallow_in_graph(fn: Any) -> Any:
    """The function, marked to run eagerly."""
    return disable(fn)


forbid_in_graph = disallow_in_graph


def _no_dynamo(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError(
        "there is no bytecode analysis here: frontend.compile(f).explain() tells what was traced, "
        "`graphc dump` prints graphs"
    )


explain = export = optimize = _no_dynamo

"""The gradient worker's own side: recorded ops in from a pipe, kernels of their gradients on disk.

In: the name of an op, attributes, types and layouts of operands, wanted gradients, pickled, one
after the other on the standard input. Out, pickled, on what was the standard output: an empty text
when it is ready, then for each op the text of what went wrong, empty where nothing did. It ends
when the other side does.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.gradients.backward import run_backward
from frontend.engine.eager.kernels.layouts import Layout
from frontend.engine.tensors.state import set_eager_backend
from frontend.engine.tensors.tensor import Tensor, make
from graphc.codegen.program.compile_worker_main import reply, reply_pipe, serve
from graphc.ir.registry import lookup
from graphc.ir.types import TensorType


def compile_gradients(
    name: str,
    attributes: dict[str, Any],
    types: tuple[TensorType, ...],
    layouts: tuple[Layout | None, ...],
    wanted: tuple[bool, ...],
) -> None:
    """Have all kernels compiled that backward runs for an op: it is done once, on zeros."""
    operands = [_zeros(type, layout) for type, layout in zip(types, layouts, strict=True)]
    for operand, wants in zip(operands, wanted, strict=True):
        operand._requires_grad = wants
    results = CONTEXT.apply(lookup(name), tuple(operands), attributes)
    for result in results:
        if result._requires_grad:
            leaves = [operand for operand in operands if operand._requires_grad]
            gradient = _zeros(result.tensor_type, None)
            run_backward([(result, gradient)], leaves, retain_graph=False, create_graph=False)
            return  # of several results one is what a model mostly uses


def _zeros(type: TensorType, layout: Layout | None) -> Tensor:
    """A tensor of zeros that lies in memory as told."""
    dense = np.zeros((type if layout is None else layout.dense(type)).shape, type.dtype.numpy)
    return make(dense if layout is None else layout.shown_array(dense, type.shape), type)


def answer(asked: Any) -> str:
    """Compile for what is asked; what went wrong."""
    try:
        compile_gradients(*asked)
    except Exception as error:  # this process only saves time: the other will meet it, and say
        return repr(error)
    return ""


def main() -> None:
    """The worker process."""
    gc.disable()  # it makes objects that stay until it ends
    pipe = reply_pipe()
    os.environ["GRAPHC_PROCESSES"] = "1"  # it has no workers of its own
    set_eager_backend("native")
    # All that compiling takes is imported while the other side still runs forward.
    import graphc.codegen.llvm.jit
    import graphc.runtime.compile  # noqa: F401

    if reply(pipe, ""):
        serve(sys.stdin.buffer, pipe, answer)
    os._exit(0)  # who waits for the end need not wait for tidying up

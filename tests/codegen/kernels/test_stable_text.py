"""Equal kernels have equal code in every process: their names on disk are hashes of it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Gradients of strided convolutions: their indices hold several quotients, which are terms of a set.
SCRIPT = """
import hashlib, sys
import graphc
from graphc.codegen.llvm.jit import kernel_symbol
from graphc.codegen.kernels.lower import lower
from graphc.codegen.target import named
from graphc.schedule.build import plan_graph

GEOMETRIES = (
    ("f32[1,33,3,3]", "f32[33,17,3,3]", "dilation=[1, 1] groups=1 padding=[1, 1] size=[6, 5] "
     "stride=[2, 2]", "f32[1,17,6,5]"),
    ("f32[1,15,3,7]", "f32[15,3,2,2]", "dilation=[2, 2] groups=3 padding=[1, 1] size=[9, 20] "
     "stride=[3, 3]", "f32[1,9,9,20]"),
    ("f32[1,3,2,2]", "f32[3,2,2,2]", "dilation=[1, 1] groups=1 padding=[0, 0] size=[5, 5] "
     "stride=[2, 2]", "f32[1,2,5,5]"),
)
order = GEOMETRIES if sys.argv[1] == "forward" else GEOMETRIES[::-1]
symbols = {}
for x, y, attributes, result in order:
    graph = graphc.parse(f'''graph g(%x: {x}, %y: {y}) {{
      %r = conv_input_grad(%x, %y) {attributes} : {result}
      return %r
    }}''')
    (step,) = plan_graph(graph)[1].steps
    for target in ("x86-64-v3", "x86-64-v4"):
        kernel = lower(step.kernel, named(target))
        symbols[x, target] = kernel_symbol(kernel, named(target))
print(sorted(symbols.items()))
"""


def _symbols(seed: str, order: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, order], env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return result.stdout


@pytest.mark.slow
def test_symbols_depend_on_neither_hash_seed_nor_history() -> None:
    assert _symbols("1", "forward") == _symbols("2", "backward") == _symbols("3", "forward") != ""

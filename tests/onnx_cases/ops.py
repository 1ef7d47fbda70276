"""Every op of the compiler on its samples, written as ONNX: `python -m tests.onnx_cases.ops`.

Each is checked, run by ONNX Runtime where that is installed, loaded again by the importer, and
compared with the reference. Options: `--opset N` (20), `-k PART` of the op's name.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from importlib.util import find_spec
from typing import Any

import numpy as np
import onnx

import frontend as torch
import graphc
from frontend.onnx.exporting.expansion import expanded
from frontend.onnx.exporting.writer import GraphWriter
from frontend.onnx.importing.errors import OnnxNotHere
from graphc.errors import GraphError
from graphc.ir.builder import GraphBuilder
from graphc.ir.registry import all_ops
from graphc.ir.types import DType
from graphc.ops.kinds.op import SampleDrawer

ELSEWHERE = {
    "argmax": "ONNX Runtime passes NaN by", "argmin": "ONNX Runtime passes NaN by",
    "pad": "ONNX Runtime refuses 0-d and empty operands",
    "cast": "ONNX Runtime hands out no bfloat16",
}  # fmt: skip
"""What ONNX Runtime does otherwise."""


def sample_graph(op: Any, sample: Any) -> tuple[Any, list[Any]] | None:
    """A graph of one op, and its arrays in float32; None where it does not take these."""
    arrays = [a.astype(np.float32) if a.dtype == np.float64 else a for a in sample.operands]
    builder = GraphBuilder("sample")
    inputs = [
        builder.input(f"x{i}", f"{DType.of(a.dtype).value}[{','.join(map(str, a.shape))}]")
        for i, a in enumerate(arrays)
    ]
    if not inputs:
        return None
    try:
        results = op(*inputs, **sample.attributes)
    except GraphError:
        return None
    return builder.finish(*(results if isinstance(results, tuple) else (results,))), arrays


def written(graph: Any, opset: int) -> Any:
    """The model of a graph."""
    graph = expanded(graph, opset)
    writer = GraphWriter(opset)
    writer.taken |= set(graph.input_names)
    outputs = []
    for result, type in zip(writer.write(graph, graph.input_names), graph.output_types):
        outputs.append((writer.add("Identity", [result]), type))
    helper = writer.helper
    proto = helper.make_graph(
        writer.nodes, "sample",
        [writer.value_info(*each) for each in zip(graph.input_names, graph.input_types)],
        [writer.value_info(*each) for each in outputs],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(proto, opset_imports=opsets, ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    return model


def outcome(op: Any, sample: Any, opset: int) -> str:
    """How a sample went: "ok", "not here", "no graph", or what is wrong."""
    pair = sample_graph(op, sample)
    if pair is None:
        return "no graph"
    graph, arrays = pair
    try:
        model = written(graph, opset)
    except OnnxNotHere:
        return "not here"
    want = graphc.run(graph, *arrays)
    with torch.no_grad():
        back = torch.onnx.load(model)(*map(torch.tensor, arrays))
    back = back if isinstance(back, tuple) else (back,)
    if not same([each.numpy() for each in back], want):
        return f"the importer has other values {sample.attributes}"
    if find_spec("onnxruntime") is None or op.name in ELSEWHERE:
        return "ok"
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [each.name for each in session.get_inputs()]
    got = session.run(None, dict(zip(names, arrays)))
    return "ok" if same(got, want) else f"ONNX Runtime has other values {sample.attributes}"


def same(got: Any, want: Any) -> bool:
    return len(got) == len(want) and all(
        np.allclose(a, b, rtol=2e-4, atol=1e-5, equal_nan=True) for a, b in zip(got, want)
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.onnx_cases.ops")
    parser.add_argument("--opset", type=int, default=20)
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    tally: Counter[str] = Counter()
    for op in all_ops():
        if op.samples is None or op.kind == "region" or options.k not in op.name:
            continue
        for sample in op.samples(SampleDrawer()):
            result = outcome(op, sample, options.opset)
            known = result if result in ("ok", "not here", "no graph") else "WRONG"
            tally[known] += 1
            if known == "WRONG":
                print(f"{op.name}: {result}", flush=True)
    print(dict(tally))
    return int(bool(tally["WRONG"]) or not tally["ok"])


if __name__ == "__main__":
    raise SystemExit(main())

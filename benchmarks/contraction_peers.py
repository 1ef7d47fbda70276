"""How each peer is asked for a contraction: graphc, NumPy, PyTorch, JAX, ONNX Runtime.

In: a case and its operands. Out: one or more ways to run it, each a `Run`; the fastest counts.
A peer that has no such function raises `Unsupported`. Operands are brought into the peer's own
arrays, and into its memory format, before anything is timed; frozen operands may be packed then.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from contraction_cases import Array, Case


class Unsupported(Exception):
    """The peer cannot do this case; the message says why."""


@dataclass(frozen=True)
class Run:
    """`step(n)` does the work n times; `results(what step gave)` as NumPy arrays. Without `results`
    it is no way to do the case, only timed beside it. `facts` are handed on."""

    step: Callable[[int], Any]
    results: Callable[[Any], list[Array]] | None
    facts: Mapping[str, Any] = field(default_factory=dict)


Setup = Callable[[Case, list[Array]], Mapping[str, Run]]


def _calls(function: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[[int], Any]:
    def step(count: int) -> Any:
        for _ in range(count):
            result = function(*arguments, **options)
        return result

    return step


# -- graphc ---------------------------------------------------------------------------------------

REPEAT = """define i64 @repeat(ptr %enter, ptr %list, ptr %call, i64 %count) nounwind {
entry:
  br label %again
again:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  %status = call i64 %enter(ptr %list, ptr %call)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %again, label %done
done:
  ret i64 %status
}
"""


def graphc_peer(threads: int, level: str) -> Setup:
    """Two ways: `call`, the executable called from Python, which makes arrays for the results; and
    `native`, the foreign call alone on arrays that it has seen, repeated by native code.

    With more than one thread, `one` is what `native` is on one."""
    import graphc
    from graphc.codegen.llvm.loading import compile_driver
    from graphc.runtime.native_call import enter

    loaded = compile_driver(REPEAT, {}, "repeat")
    repeat = ctypes.CFUNCTYPE(
        ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64
    )(loaded.address)

    def bare(executable: Any, arrays: list[Array], name: str) -> Run:
        """The foreign call alone, on arrays made for the results once."""
        results = list(executable(*arrays))
        # There is no public handle on it: the frame that the call before has left is used.
        frame = executable._frames[-1]
        alive = (executable, [*arrays, *results], loaded)
        address = ctypes.cast(enter(), ctypes.c_void_p).value

        def native(count: int) -> list[Array]:
            status = repeat(address, id(alive[1]), frame.call_address, count)
            if status:
                raise ValueError(f"{name}: the native call answered {status}")
            return results

        timings = executable.timings
        kernels = len({step.kernel for step in executable.plan.steps})
        compiled = 1e3 * (timings.get("loops", 0.0) + timings.get("llvm", 0.0)) / max(kernels, 1)
        return Run(native, list, facts={"kernels": kernels, "compile_ms_a_kernel": compiled})

    def setup(case: Case, arrays: list[Array]) -> Mapping[str, Run]:
        graph = graphc_graph(case, arrays)
        executable = graphc.compile(graph, case.options.get("level", level), threads=threads)
        arguments = [array for i, array in enumerate(arrays) if i != case.frozen]
        native = bare(executable, arguments, case.name)
        if threads > 1:
            alone = graphc.compile(graph, case.options.get("level", level), threads=1)
            pairs = zip(alone(*arguments), executable(*arguments))
            if any(one.tobytes() != other.tobytes() for one, other in pairs):
                raise ValueError(f"other bits on {threads} threads than on one")
            return {
                "native": native,
                "one": replace(bare(alone, arguments, case.name), results=None),
            }
        runs = {"native": native, "call": Run(_calls(executable, *arguments), list)}
        if case.gain:
            direct = graphc.compile(graph, "exact", threads=1)
            runs["direct"] = replace(bare(direct, arguments, case.name), results=None)
        if case.kind == "fused":
            x, w = arrays[:2]
            product = graphc.compile(graphc_graph(case.bare, [x, w]), level, threads=1)
            runs["bare"] = replace(bare(product, [x, w], case.name), results=None)
        return runs

    return setup


def graphc_graph(case: Case, arrays: list[Array]) -> Any:
    """The case as a graph; a frozen operand is a constant of it."""
    import graphc
    from graphc.ops import contract
    from graphc.ops.composite import gelu
    from graphc.ops.movement import transpose
    from graphc.ops.nn.attention import attention

    options = case.options
    g = graphc.GraphBuilder("contraction")
    values = [
        g.constant(array) if i == case.frozen else g.input(f"x{i}", graphc.TensorType.of(array))
        for i, array in enumerate(arrays)
        if not (options.get("backward") and i == len(arrays) - 1)
    ]
    if case.kind == "product":
        x, y = values
        swap = (*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2)
        x = transpose(x, permutation=swap) if options["form"][0] == "T" else x
        y = transpose(y, permutation=swap) if options["form"][1] == "T" else y
        return g.finish(x @ y)
    if case.kind == "fused":
        x, w, bias, residual = values
        return g.finish(gelu(x @ w + bias) + residual)
    if case.kind == "attention":
        q, k, v = values
        out = attention(q, k, v, scale=1 / math.sqrt(q.shape[-1]), causal=True)
        graph = g.finish(out[0])
        return graphc.joint(graph) if options.get("backward") else graph
    geometry = {name: options[name] for name in ("stride", "padding", "groups")}
    geometry["dilation"] = (1, 1)
    if options["direction"] == "forward":
        return g.finish(contract.conv(*values, **geometry))
    if options["direction"] == "backward-data":
        return g.finish(contract.conv_input_grad(*values, size=options["size"], **geometry))
    return g.finish(contract.conv_weight_grad(*values, kernel=options["kernel"], **geometry))


# -- NumPy ----------------------------------------------------------------------------------------


def numpy_peer(threads: int, level: str) -> Setup:
    def setup(case: Case, arrays: list[Array]) -> Mapping[str, Run]:
        if case.kind != "product":
            raise Unsupported("NumPy has products only")
        x, y = arrays
        form = case.options["form"]
        x, y = x if form[0] == "N" else x.T, y if form[1] == "N" else y.mT
        out = np.matmul(x, y)
        return {"matmul": Run(_calls(np.matmul, x, y, out=out), lambda result: [result])}

    return setup


# -- PyTorch --------------------------------------------------------------------------------------


def torch_peer(threads: int, level: str) -> Setup:
    """Convolutions in both memory formats; forward passes record no gradients."""
    import torch

    torch.set_num_threads(threads)
    functional = torch.nn.functional

    def results(result: Any) -> list[Array]:
        parts = result if isinstance(result, tuple | list) else [result]
        return [part.detach().numpy() for part in parts if part is not None]

    def product(case: Case, x: Any, y: Any) -> dict[str, Run]:
        form = case.options["form"]
        x, y = x if form[0] == "N" else x.mT, y if form[1] == "N" else y.mT
        return {"matmul": Run(_calls(torch.matmul, x, y, out=torch.matmul(x, y)), results)}

    def fused(case: Case, x: Any, w: Any, bias: Any, residual: Any) -> dict[str, Run]:
        return {
            "eager": Run(
                _calls(lambda: functional.gelu(torch.addmm(bias, x, w)).add_(residual)), results
            )
        }

    def attention(case: Case, q: Any, k: Any, v: Any, g: Any = None) -> dict[str, Run]:
        # [8, 4, T, d]: its fast kernel wants batches and heads apart.
        q, k, v = (x.unflatten(0, (8, 4)).requires_grad_(g is not None) for x in (q, k, v))

        def forward() -> Any:
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

        def both() -> Any:
            out = forward()
            return (out, *torch.autograd.grad(out, (q, k, v), g.unflatten(0, (8, 4))))

        def flat(result: Any) -> list[Array]:
            return [part.reshape(-1, *part.shape[2:]) for part in results(result)]

        return {"sdpa": Run(_calls(forward if g is None else both), flat)}

    def conv(case: Case, *tensors: Any) -> dict[str, Run]:
        runs = {}
        for name, layout in (("nchw", torch.contiguous_format), ("nhwc", torch.channels_last)):
            moved = [tensor.contiguous(memory_format=layout) for tensor in tensors]
            runs[name] = Run(_calls(*_torch_conv(torch, case, layout, *moved)), results)
        return runs

    kinds = {"product": product, "fused": fused, "attention": attention, "conv": conv}

    def setup(case: Case, arrays: list[Array]) -> Mapping[str, Run]:
        return kinds[case.kind](case, *map(torch.from_numpy, arrays))

    return setup


def _torch_conv(torch: Any, case: Case, layout: Any, first: Any, second: Any) -> tuple[Any, ...]:
    """The function that does the case and its arguments."""
    options = case.options
    stride, padding, groups = options["stride"], options["padding"], options["groups"]
    if options["direction"] == "forward":
        convolve = torch.nn.functional.conv2d
        return (lambda: convolve(first, second, None, stride, padding, (1, 1), groups),)
    backward = torch.ops.aten.convolution_backward
    if options["direction"] == "backward-data":
        shape = (first.shape[0], second.shape[1] * groups, *options["size"])
        grad, x, w = first, torch.empty(shape).contiguous(memory_format=layout), second
        wanted = [True, False, False]
    else:
        shape = (second.shape[1], first.shape[1] // groups, *options["kernel"])
        grad, x, w = second, first, torch.empty(shape).contiguous(memory_format=layout)
        wanted = [False, True, False]
    rest = ([0], stride, padding, (1, 1), False, (0, 0), groups, wanted)
    return (lambda: backward(grad, x, w, *rest),)


# -- JAX ------------------------------------------------------------------------------------------


def jax_peer(threads: int, level: str) -> Setup:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_default_matmul_precision", "highest")

    def product(case: Case, x: Any, y: Any) -> Any:
        form = case.options["form"]
        return (x if form[0] == "N" else x.mT) @ (y if form[1] == "N" else y.mT)

    def fused(case: Case, x: Any, w: Any, bias: Any, residual: Any) -> Any:
        return jax.nn.gelu(x @ w + bias, approximate=False) + residual

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        return jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1) @ v

    def attention(case: Case, q: Any, k: Any, v: Any, g: Any = None) -> Any:
        if g is None:
            return attend(q, k, v)
        out, pull = jax.vjp(attend, q, k, v)
        return (out, *pull(g))

    def conv(case: Case, first: Any, second: Any) -> Any:
        options, groups = case.options, case.options["groups"]
        pads = [(pad, pad) for pad in options["padding"]]

        def convolve(x: Any, w: Any) -> Any:
            return jax.lax.conv_general_dilated(
                x, w, options["stride"], pads, feature_group_count=groups
            )

        if options["direction"] == "forward":
            return convolve(first, second)
        if options["direction"] == "backward-data":
            x = jnp.zeros((first.shape[0], second.shape[1] * groups, *options["size"]))
            return jax.linear_transpose(lambda x: convolve(x, second), x)(first)[0]
        w = jnp.zeros((second.shape[1], first.shape[1] // groups, *options["kernel"]))
        return jax.linear_transpose(lambda w: convolve(first, w), w)(second)[0]

    kinds = {"product": product, "fused": fused, "attention": attention, "conv": conv}

    def results(result: Any) -> list[Array]:
        return [np.asarray(part) for part in (result if isinstance(result, tuple) else [result])]

    def setup(case: Case, arrays: list[Array]) -> Mapping[str, Run]:
        placed = [jnp.asarray(array) for array in arrays]
        compiled = (
            jax.jit(lambda *operands: kinds[case.kind](case, *operands)).lower(*placed).compile()
        )
        return {"jit": Run(_calls(lambda: jax.block_until_ready(compiled(*placed))), results)}

    return setup


# -- ONNX Runtime ---------------------------------------------------------------------------------


def onnxruntime_peer(threads: int, level: str) -> Setup:
    """Inference only: the second operand is a weight of the model."""
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper

    def setup(case: Case, arrays: list[Array]) -> Mapping[str, Run]:
        nodes = [helper.make_node(*node, **attributes) for *node, attributes in _onnx_nodes(case)]
        weights = [numpy_helper.from_array(a, f"x{i}") for i, a in enumerate(arrays) if i == 1]
        inputs = [
            helper.make_tensor_value_info(f"x{i}", onnx.TensorProto.FLOAT, array.shape)
            for i, array in enumerate(arrays)
            if i != 1
        ]
        out = helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph(nodes, "contraction", inputs, [out], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), settings, providers=["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        for i, array in enumerate(arrays):
            if i != 1:
                binding.bind_cpu_input(f"x{i}", array)
        binding.bind_output("out", "cpu")
        step = _calls(session.run_with_iobinding, binding)
        return {"session": Run(step, lambda _: list(binding.copy_outputs_to_cpu()))}

    return setup


def _onnx_nodes(case: Case) -> list[tuple[Any, ...]]:
    """(op, inputs, outputs, attributes) of each node."""
    options = case.options
    if case.kind == "product" and options["form"] == "NN":
        return [("MatMul", ["x0", "x1"], ["out"], {})]
    if case.kind == "fused":
        return [
            ("MatMul", ["x0", "x1"], ["z"], {}), ("Add", ["z", "x2"], ["s"], {}),
            ("Gelu", ["s"], ["y"], {}), ("Add", ["y", "x3"], ["out"], {}),
        ]  # fmt: skip
    if case.kind == "conv" and options["direction"] == "forward":
        pads = [*options["padding"], *options["padding"]]
        attributes = {"strides": options["stride"], "pads": pads, "group": options["groups"]}
        return [("Conv", ["x0", "x1"], ["out"], attributes)]
    raise Unsupported("inference of NN products and convolutions only")


PEERS: dict[str, Callable[[int, str], Setup]] = {
    "graphc": graphc_peer,
    "numpy": numpy_peer,
    "torch": torch_peer,
    "jax": jax_peer,
    "onnxruntime": onnxruntime_peer,
}

"""How each peer of `peers.py` is asked for a workload.

In: a workload, its initial weights, and a `Choice` of how the peer runs. Out: `Ready`, its step and
what can be told about it. A package that is missing raises ModuleNotFoundError. Nothing heavy is
imported before a setup is called, since imports are part of what is measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from workloads import Array, Arrays, Workload, prepare


@dataclass(frozen=True)
class Choice:
    """One way to run a peer. `layout` is that of images; `level` and `keep_grads` are graphc's;
    `model` is the folder where exported models lie."""

    threads: int = 1
    layout: str = "NCHW"
    level: str = "exact"
    keep_grads: bool = False
    folder: Path = Path()


@dataclass
class Ready:
    """`read(what step gave)` as an array. `facts()` may be asked for once a step was made."""

    step: Callable[[], Any]
    read: Callable[[Any], Array]
    facts: Callable[[], Mapping[str, Any]] = field(default=dict)


Setup = Callable[[Workload, Arrays, Choice], Ready]


# -- graphc ---------------------------------------------------------------------------------------


def graphc(choice: Choice) -> Setup:
    """On as many threads as it takes by itself: at most one for each processor it may use."""
    import plan_facts

    import frontend

    for module in ("llvmlite.binding", "graphc.runtime.executable"):
        import_module(module)  # else imported by the first call
    options: dict[str, Any] = {"level": choice.level, "keep_grads": choice.keep_grads}

    def setup(workload: Workload, state: Arrays, choice: Choice) -> Ready:
        functions: list[Any] = []

        def compile(function: Any) -> Any:
            if isinstance(function, frontend.nn.Module):  # inference: as JAX and ONNX Runtime do
                frontend.freeze(function)
            functions.append(frontend.compile(function, **options, fullgraph=True))
            return functions[0]

        prepared = prepare(frontend, workload, state, compile=compile)

        def facts() -> Mapping[str, Any]:
            return plan_facts.facts(functions)

        return Ready(prepared.step, lambda result: result.detach().numpy(), facts)

    return setup


def graphc_eager(choice: Choice) -> Setup:
    """The same lines as PyTorch's eager mode runs, each operation by its own kernel."""
    import frontend

    for module in ("llvmlite.binding", "graphc.runtime.executable"):
        import_module(module)

    def setup(workload: Workload, state: Arrays, choice: Choice) -> Ready:
        prepared = prepare(frontend, workload, state)
        return Ready(prepared.step, lambda result: result.detach().numpy())

    return setup


# -- PyTorch --------------------------------------------------------------------------------------


def torch_eager(choice: Choice) -> Setup:
    import torch

    torch.set_num_threads(choice.threads)
    return lambda workload, state, choice: _torch(torch, workload, state, choice)


def torch_compile(choice: Choice) -> Setup:
    """The model with its loss is compiled; the optimizer is PyTorch's own fused one."""
    # Weights of inference are frozen: an option of its compiler, off by default.
    os.environ.setdefault("TORCHINDUCTOR_FREEZING", "1")
    import torch

    torch.set_num_threads(choice.threads)

    def setup(workload: Workload, state: Arrays, choice: Choice) -> Ready:
        return _torch(torch, workload, state, choice, compile=torch.compile, whole=False)

    return setup


def _torch(torch: Any, workload: Workload, state: Arrays, choice: Choice, **how: Any) -> Ready:
    if workload.trains:
        how["fused"] = True  # one kernel for all parameters: its fastest optimizers
    if choice.layout == "NHWC":
        how["memory_format"] = torch.channels_last
    prepared = prepare(torch, workload, state, **how)
    return Ready(prepared.step, lambda result: result.detach().numpy())


# -- JAX ------------------------------------------------------------------------------------------


def jax(choice: Choice) -> Setup:
    import jax_workloads

    def setup(workload: Workload, state: Arrays, choice: Choice) -> Ready:
        return Ready(jax_workloads.prepare(workload, state, choice.layout), np.asarray)

    return setup


# -- ONNX Runtime ---------------------------------------------------------------------------------


def onnxruntime(choice: Choice) -> Setup:
    import onnxruntime

    def setup(workload: Workload, state: Arrays, choice: Choice) -> Ready:
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = choice.threads
        session = onnxruntime.InferenceSession(
            str(choice.folder / "model.onnx"), settings, providers=["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        x = np.ascontiguousarray(workload.inputs()[0])
        binding.bind_cpu_input("x", x)
        binding.bind_output("out", "cpu")

        def step() -> Any:
            session.run_with_iobinding(binding)
            return binding

        return Ready(step, lambda binding: binding.copy_outputs_to_cpu()[0])

    return setup


def export(workload: Workload, state: Arrays, folder: Path) -> None:
    """Writes `model.onnx`, by PyTorch's exporter."""
    import warnings

    import torch

    model = prepare(torch, workload, state).model
    if not isinstance(model, torch.nn.Module):
        function = model
        model = torch.nn.Module()
        model.forward = function
    example = tuple(torch.tensor(array) for array in workload.inputs())
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter by tracing is marked as the older one
        torch.onnx.export(
            model.eval(), example, str(folder / "model.onnx"), dynamo=False, opset_version=20,
            input_names=["x"], output_names=["out"],
        )  # fmt: skip


SETUPS: Mapping[str, Callable[[Choice], Setup]] = {
    "graphc": graphc,
    "eager": graphc_eager,
    "torch": torch_eager,
    "torch.compile": torch_compile,
    "jax": jax,
    "onnxruntime": onnxruntime,
}


def caches(peer: str, folder: Path, fresh: bool) -> dict[str, str]:
    """Environment variables that put the peer's compile cache into `folder`. JAX keeps nothing on
    disk unless told to, so its fresh run has no cache to fill."""
    if peer == "jax" and fresh:
        return {}
    by_peer = {
        "graphc": {"GRAPHC_CACHE": str(folder)},
        "torch.compile": {"TORCHINDUCTOR_CACHE_DIR": str(folder)},
        "jax": {
            "JAX_COMPILATION_CACHE_DIR": str(folder),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        },
    }
    return by_peer.get(peer, {})

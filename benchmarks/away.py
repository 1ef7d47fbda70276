"""What was built beside the process that built it: the fourteen workloads as objects for this
machine, one thread, and a training step as WebAssembly beside the object for x86-64-v2.

`python benchmarks/away.py` prints microseconds of processor time a call, process and object in
turns, the least of many; a C compiler links the objects. `--wasm` runs MLP's Adam step in node.
`--only`, `--rounds`, `--small`.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import math
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import workloads
from harness import processor, stay_on

import frontend
from graphc.build.wasm_module import probe

CACHE_LINE = 64
LEAST = 0.05
"""Seconds that each side runs in one turn, at least."""
STEP = "mlp-adam"
"""What runs as WebAssembly."""
WASM = ("wasm32", "wasm32+relaxed")
RELAXED = "--experimental-wasm-relaxed-simd"

Call = Callable[[], Any]


def prepared(name: str, size: str) -> tuple[workloads.Prepared, Any]:
    """A workload, and its compiled function."""
    compiled: list[Any] = []

    def compile_(function: Any) -> Any:
        compiled.append(frontend.compile(function, threads=1))
        return compiled[0]

    workload = workloads.BY_NAME[name]
    state = workloads.initial_state(workload, size)
    return workloads.prepare(frontend, workload, state, size=size, compile=compile_), compiled[0]


def built(name: str, size: str, folder: Path, **options: Any) -> workloads.Prepared:
    """A workload, built into a folder."""
    step, function = prepared(name, size)
    with frontend.set_grad_enabled(workloads.BY_NAME[name].trains):
        function.build(folder, *step.batch, name="away", **options)
    return step


def object_call(folder: Path, batch: list[Any]) -> Call:
    """A call of the library in a folder on these arguments, in the memory where the process reads
    them: pointers are made once."""
    specification = importlib.util.spec_from_file_location("away", folder / "away.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    state, arrays = module.ModelState(), [tensor.numpy() for tensor in batch]
    results = [_aligned(shape(), dtype) for dtype, shape in module.RESULTS]
    work = np.empty(module._function("_work_bytes")(), np.uint8)
    places = [each.ctypes.data for each in (state.memory, *arrays, *results, work)]
    pointers, function = [ctypes.c_void_p(place) for place in places], module._function("")

    def call() -> Any:
        assert function(*pointers) == 0
        return arrays, state, results, work  # kept as long as the pointers are

    return call


def _aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Memory for a result that begins at a cache line, as the process's own do: vectors that lie
    across two lines take twice as long."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    block = np.empty(size + CACHE_LINE, np.uint8)
    first = -block.ctypes.data % CACHE_LINE
    return block[first : first + size].view(dtype).reshape(shape)


def least(call: Call, count: int) -> float:
    """Microseconds of processor time of the shortest of so many calls."""
    clock, best = time.thread_time_ns, math.inf
    for _ in range(count):
        start = clock()
        call()
        best = min(best, clock() - start)
    return best / 1000


def compared(calls: list[Call], rounds: int) -> list[float]:
    """The least of each, in turns."""
    counts = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        counts.append(max(3, math.ceil(LEAST / (time.perf_counter() - start))))
    best = [math.inf] * len(calls)
    for _ in range(rounds):
        for number, call in enumerate(calls):
            best[number] = min(best[number], least(call, counts[number]))
    return best


def objects(names: list[str], size: str, rounds: int) -> None:
    """Print the table of workloads."""
    print("| workload | process, µs | object, µs | ratio |\n|---|---|---|---|")
    ratios = []
    with tempfile.TemporaryDirectory(prefix="away") as root:
        for name in names:
            folder = Path(root) / name
            step = built(name, size, folder, kind="shared")
            process, other = compared([step.step, object_call(folder, step.batch)], rounds)
            ratios.append(other / process)
            print(f"| {name} | {process:,.1f} | {other:,.1f} | {ratios[-1]:.3f} |", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.3f}, greatest {max(ratios):.3f}")


# -- WebAssembly -----------------------------------------------------------------------------------

SCRIPT = """
import { readFileSync } from "node:fs";
import { built } from "./away.mjs";
const bytes = (name) => new Uint8Array(readFileSync(new URL(name, import.meta.url)));
const step = await built(bytes("away.wasm"));
step.init(bytes("away.safetensors"));
const x = new Float32Array(bytes("x.bin").buffer), y = new BigInt64Array(bytes("y.bin").buffer);
const used = () => { const { user, system } = process.cpuUsage(); return user + system; };
const time = () => {
  const before = used();
  step.call({}, x, y);
  return used() - before;
};
let best = Infinity;
for (const start = used(); used() - start < 1.5e6; ) best = Math.min(best, time());
console.log(Math.min(best, time()));
"""


def node_flags(node: str) -> list[str]:
    """What node takes to know relaxed_madd."""
    listed = ",".join(map(str, probe()))
    asks = f"process.exit(WebAssembly.validate(new Uint8Array([{listed}])) ? 0 : 1)"
    return [] if subprocess.run([node, "-e", asks]).returncode == 0 else [RELAXED]


def webassembly(size: str, rounds: int) -> None:
    """Print the step's times: the object for x86-64-v2, and the modules in node."""
    node = shutil.which("node")
    if node is None:
        sys.exit("away.py --wasm needs node")
    with tempfile.TemporaryDirectory(prefix="away") as name:
        folder = Path(name)
        step = built(STEP, size, folder / "object", kind="shared", target="x86-64-v2")
        call = object_call(folder / "object", step.batch)
        for target in WASM:
            built(STEP, size, folder / target, target=target)
            (folder / target / "time.mjs").write_text(SCRIPT)
            for file, tensor in zip(("x.bin", "y.bin"), step.batch):
                (folder / target / file).write_bytes(tensor.numpy().tobytes())
        best = dict.fromkeys(("x86-64-v2", *WASM), math.inf)
        for _ in range(rounds):
            best["x86-64-v2"] = min(best["x86-64-v2"], *compared([call], 1))
            for target in WASM:
                flags = node_flags(node) if target == WASM[1] else []
                ran = subprocess.run(
                    [node, *flags, "time.mjs"], cwd=folder / target, capture_output=True, text=True
                )
                if ran.returncode:
                    sys.exit(ran.stderr)
                best[target] = min(best[target], float(ran.stdout))
    print(f"| {STEP} | µs | ratio |\n|---|---|---|")
    for target, time_ in best.items():
        print(f"| {target} | {time_:,.1f} | {time_ / best['x86-64-v2']:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--small", action="store_true", help="the sizes of the tests")
    parser.add_argument("--wasm", action="store_true", help="MLP's Adam step in node")
    arguments = parser.parse_args()
    size = "small" if arguments.small else "full"
    stay_on(1)
    print(f"{processor()}, one thread, least of {arguments.rounds} turns")
    if arguments.wasm:
        webassembly(size, arguments.rounds)
    else:
        names = [workload.name for workload in workloads.chosen(arguments.only)]
        objects(names, size, arguments.rounds)


if __name__ == "__main__":
    main()

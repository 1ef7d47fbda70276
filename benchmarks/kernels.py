"""Where a compiled step's time goes: each kernel of a workload timed by itself.

    python benchmarks/kernels.py resnet18-sgd
    python benchmarks/kernels.py gpt-adamw --top 20 --level relaxed --json

The plan's launches are run one by one, in order, on the step's own arrays, for some passes, as the
driver would run them; the least time of each launch counts. A launch inside a loop is run a few
times in a row, on arrays of zeros, and counts as often as the loop goes round: what it reads is in
the caches, as it is in the loop. Launches of one kernel are summed.
A kernel's rate is given in Gflop/s of its contractions and as a fraction of the core's FMA peak,
and in GB/s of the buffers it reads and writes and as a fraction of what one core reads from memory;
both limits are measured in the same process. One thread; content checks are left out.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import plan_facts
from harness import processor, stay_on
from workloads import BY_NAME, SEED, Workload, initial_state, prepare

SCRATCH_ALIGNMENT = 64
TURNS = 3
"""Runs of a launch inside a loop, one after the other."""


def compiled_step(workload: Workload, level: str, size: str = "full") -> tuple[Any, list[Any]]:
    """The executable of a workload's step, and the arrays it is called with; where weights are
    packed ahead of calls, the packed ones."""
    import frontend

    functions: list[Any] = []

    def compile(function: Any) -> Any:
        functions.append(frontend.compile(function, level=level, keep_grads=False, fullgraph=True))
        return functions[0]

    frontend.manual_seed(SEED)
    state = initial_state(workload, size)
    prepared = prepare(frontend, workload, state, size=size, compile=compile)
    prepared.step()
    (executable,) = plan_facts.executables_of_calls(functions[0])
    arrays: list[Any] = []
    plain = executable.run

    def run(inputs: list[Any]) -> Any:
        arrays[:] = inputs
        return plain(inputs)

    executable.run = run  # the arrays of a call are bound inside it
    prepared.step()
    executable.run = plain
    return executable, arrays


@dataclass
class Timed:
    """A launch, how often a step makes it, its address table, and the least time seen."""

    launch: Any
    runs: int
    types: tuple[Any, ...]
    function: Any
    table: Any
    extent: int
    once: float = math.inf

    @property
    def seconds(self) -> float:
        return self.once * self.runs


class Launches:
    """All launches of an executable's plan over memory of their own; arguments are the arrays
    given."""

    def __init__(self, executable: Any, arrays: list[Any]) -> None:
        self.timed: list[Timed] = []
        self._alive: list[Any] = [executable]
        self._scratch_bytes = 0
        self._add(executable.plan, executable.target, arrays, 1)
        self._scratch = _block(self._scratch_bytes)

    def _add(self, plan: Any, target: Any, arrays: list[Any], runs: int) -> None:
        arrays = [np.require(array, requirements=("C", "A")) for array in arrays]
        outputs = [_block(type.nbytes) for type in plan.output_types]
        constants = [constant.array for constant in plan.constants]
        arena = _block(plan.arena_bytes)
        self._alive += [arrays, outputs, constants, arena]

        def address(buffer: Any) -> int:
            if buffer.place == "arena":
                return _address(arena) + int(buffer.slot)
            if buffer.place == "output":
                return _address(outputs[buffer.slot])
            held = arrays if buffer.place == "argument" else constants
            return int(held[buffer.slot].ctypes.data)

        for step in plan.steps:
            if hasattr(step, "kernel"):
                used = (*step.reads, *step.writes)
                addresses = [address(plan.buffers[i]) for i in used]
                types = tuple(plan.buffers[i].type for i in used)
                self._append(step, runs, types, addresses, target)
                continue
            for inner in getattr(step, "plans", ()):
                times = runs * (getattr(step, "count", None) or 1)
                zeros = [np.zeros(type.shape, type.dtype.numpy) for type in inner.argument_types]
                self._add(inner, target, zeros, times)

    def _append(
        self, launch: Any, runs: int, types: tuple[Any, ...], addresses: list[int], target: Any
    ) -> None:
        from graphc.codegen.llvm.jit import KERNEL_FUNCTION
        from graphc.codegen.program.link import native_kernel

        kernel = native_kernel(launch.kernel, target, {})
        self._scratch_bytes = max(self._scratch_bytes, kernel.scratch_bytes)
        table = (ctypes.c_void_p * len(addresses))(*addresses)
        function = KERNEL_FUNCTION(kernel.address)
        self.timed.append(Timed(launch, runs, types, function, table, kernel.extent))

    def run(self) -> None:
        """One pass over the plan."""
        scratch = _address(self._scratch)
        for one in self.timed:
            for _ in range(min(one.runs, TURNS)):
                start = time.perf_counter()
                one.function(one.table, None, 0, one.extent, scratch)
                one.once = min(one.once, time.perf_counter() - start)


def _block(nbytes: int) -> Any:
    return np.zeros(nbytes + SCRATCH_ALIGNMENT, np.uint8)


def _address(block: Any) -> int:
    return int(-(-block.ctypes.data // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT)


# -- what a kernel has to do ----------------------------------------------------------------------


def flops(body: Any) -> float:
    """Operations of the contractions in a kernel's body, two for each product that is summed;
    causal attention counts half of its scores."""
    return sum(_node_flops(body, node) for node in body.nodes)


def _node_flops(body: Any, node: Any) -> float:
    def shape(position: int) -> tuple[int, ...]:
        sizes: tuple[int, ...] = body.type_of(node.operands[position]).shape
        return sizes

    if node.op == "matmul":
        return 2.0 * math.prod(node.types[0].shape) * shape(0)[-1]
    if node.op == "conv":
        return 2.0 * math.prod(node.types[0].shape) * math.prod(shape(1)[1:])
    if node.op == "conv_input_grad":
        return 2.0 * math.prod(shape(0)) * math.prod(shape(1)[1:])
    if node.op == "conv_weight_grad":
        # Operands are the image and the gradient; the result has the weight's shape.
        grad = max((0, 1), key=lambda i: shape(i)[1] == node.types[0].shape[0])
        return 2.0 * math.prod(shape(grad)) * math.prod(node.types[0].shape[1:])
    if node.op.startswith("attention"):
        q, k = shape(0), shape(1)
        whole = 4.0 * math.prod(q[:-1]) * k[-2] * q[-1]
        half = 0.5 if dict(node.attributes).get("causal") else 1.0
        return whole * half * (2.5 if "grad" in node.op else 1.0)
    return 0.0


def table(launches: Launches, target: Any, limits: dict[str, float]) -> list[dict[str, Any]]:
    """A row per kernel, the most expensive first."""
    rows: dict[Any, dict[str, Any]] = {}
    total = sum(one.seconds for one in launches.timed)
    for one in launches.timed:
        launch, body = one.launch, one.launch.kernel.body
        row = rows.setdefault(launch.kernel, {
            "kernel": f"k{len(rows)}", "recipe": launch.kernel.recipe, "launches": 0,
            "us": 0.0, "flops": 0.0, "bytes": 0, "at": str(launch.location or ""),
            "ops": _ops(body), "shapes": " ".join(map(str, one.types)),
            "how": _how(launch.kernel, target),
        })  # fmt: skip
        row["launches"] += one.runs
        row["us"] += one.seconds * 1e6
        row["flops"] += flops(body) * one.runs
        row["bytes"] += sum(type.nbytes for type in one.types) * one.runs
    for row in rows.values():
        row["share"] = row["us"] * 1e-6 / total
        row["gflops"] = row["flops"] / row["us"] * 1e-3
        row["gbytes"] = row["bytes"] / row["us"] * 1e-3
        row["of_peak"] = row["gflops"] / limits["peak"]
        row["of_bandwidth"] = row["gbytes"] / limits["bandwidth"]
    return sorted(rows.values(), key=lambda row: -row["us"])


def _how(kernel: Any, target: Any) -> str:
    """What the recipe says of its choices: the remark at the head of the loops."""
    from graphc.codegen.kernels.lower import lower

    lines = str(lower(kernel, target)).splitlines()[1:2]
    return " ".join(line.strip(" /") for line in lines if line.strip().startswith("//"))


def _ops(body: Any) -> str:
    """The ops of a body and how often, without inputs, constants and index maps."""
    quiet = {"input", "constant", "broadcast", "reshape", "transpose", "slice"}
    counts: dict[str, int] = {}
    for node in body.nodes:
        if node.op not in quiet:
            counts[node.op] = counts.get(node.op, 0) + 1
    return " ".join(op if count == 1 else f"{count}*{op}" for op, count in counts.items())


def measure(name: str, level: str, passes: int) -> dict[str, Any]:
    """All kernels of a workload, and the whole step beside their sum."""
    from graphc.debug.profile.machine import measured

    stay_on(1)
    machine = measured()
    limits = {"peak": 2e-9 * machine.products, "bandwidth": 1e-9 * machine.levels[-1].rate}
    executable, arrays = compiled_step(BY_NAME[name], level)
    launches = Launches(executable, arrays)
    whole = math.inf
    for _ in range(passes):
        launches.run()
        start = time.perf_counter()
        executable.run(list(arrays))
        whole = min(whole, time.perf_counter() - start)
    rows = table(launches, executable.target, limits)
    return {
        "workload": name, "level": level, "threads": 1, "processor": processor(), **limits,
        "step_us": whole * 1e6, "kernels_us": sum(row["us"] for row in rows),
        "launches": sum(one.runs for one in launches.timed), "by_kind": by_kind(rows),
        "arena_bytes": executable.plan.arena_bytes, "rows": rows,
    }  # fmt: skip


def text(result: dict[str, Any], top: int) -> str:
    titles = ("times", "µs", "share", "GF/s", "peak", "GB/s", "memory")
    lines = [
        f"{result['workload']}, level {result['level']}, 1 thread, {result['processor']}: "
        f"{result['step_us']:.0f} µs a step, {result['kernels_us']:.0f} µs in "
        f"{result['launches']} launches of {len(result['rows'])} kernels",
        f"FMA peak {result['peak']:.1f} GF/s, reads from memory {result['bandwidth']:.1f} GB/s",
        "".join(f"{title:>8}" for title in titles),
    ]
    for row in result["rows"][:top]:
        cells = (
            f"{row['launches']}", f"{row['us']:.0f}", f"{row['share']:.1%}",
            f"{row['gflops']:.1f}", f"{row['of_peak']:.2f}", f"{row['gbytes']:.1f}",
            f"{row['of_bandwidth']:.2f}",
        )  # fmt: skip
        numbers = "".join(f"{cell:>8}" for cell in cells)
        lines.append(f"{numbers}  {row['recipe']}: {row['ops'][:80]} | {row['shapes'][:100]}")
        lines += [f"{'':58}{row['how']}"] if row["how"] else []
    rest = result["rows"][top:]
    if rest:
        us, share = sum(row["us"] for row in rest), sum(row["share"] for row in rest)
        lines.append(f"{'':>8}{us:>8.0f}{share:>8.1%}  {len(rest)} more kernels")
    lines += [f"{share:>24.1%}  {what} in all" for what, share in result["by_kind"].items()]
    return "\n".join(lines)


def by_kind(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Shares of the time by what a kernel is best known by."""
    names = ("conv_weight_grad", "conv_input_grad", "conv", "matmul", "attention_grad", "attention")
    seconds: dict[str, float] = {}
    for row in rows:
        ops = row["ops"].replace("*", " ").split()
        kind = next((name for name in names if name in ops), f"other ({row['recipe']})")
        seconds[kind] = seconds.get(kind, 0.0) + row["share"]
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description="Each kernel of a workload timed by itself")
    parser.add_argument("workload", choices=list(BY_NAME))
    parser.add_argument("--level", default="exact", choices=["none", "exact", "relaxed"])
    parser.add_argument("--top", type=int, default=10, help="kernels to print (default: 10)")
    parser.add_argument("--passes", type=int, default=6, help="of the plan (default: 6)")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    options = parser.parse_args()
    result = measure(options.workload, options.level, options.passes)
    print(json.dumps(result, indent=2) if options.json else text(result, options.top))


if __name__ == "__main__":
    main()

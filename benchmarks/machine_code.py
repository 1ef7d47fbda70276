"""Whether a change of the compiler's own files left the code it makes as it was.

usage: python benchmarks/machine_code.py > before.json    in one checkout
       python benchmarks/machine_code.py --against before.json    in another

in : the fourteen workloads of workloads.py, or those of --only
out: as JSON, for each workload and target digests of its plans and of the object code of each
     kernel and driver; with --against, the lines that differ, and exit code 1 where there are some

Kernels are compiled under one name, and drivers call them by their number in the plan, so that
names of symbols do not count. Nothing is loaded or run: every machine gives the code of all
targets. `--against` looks at the workloads and targets of this run.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from workloads import chosen

from graphc.codegen.llvm.jit import ANY_NAME, LEVELS
from graphc.codegen.llvm.kernel import emit_modules, scratch_layout
from graphc.codegen.llvm.native import DRIVER_LEVEL, compile_text, joined
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.program.driver import Driver
from graphc.codegen.program.native_kernel import NativeKernel
from graphc.codegen.recipes.lower import lower
from graphc.codegen.recipes.preferred_layouts import preferred_layouts
from graphc.codegen.target import Target, named
from graphc.debug.load import loaded_calls
from graphc.ir.dims import fixed
from graphc.ir.nodes import Graph
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import KernelSpec, kernels, print_plan
from graphc.schedule.threads import one_thread, spread, work_of

TARGETS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
THREADS = 4
Digests = dict[str, str]


class Compiler:
    """Object code for one target; equal kernels are compiled once."""

    def __init__(self, target: Target):
        self.target = target
        self._kernels: dict[KernelSpec, tuple[Kernel, str]] = {}

    def kernel(self, spec: KernelSpec) -> tuple[Kernel, str]:
        """A kernel's loops, and the digest of its object code."""
        if spec not in self._kernels:
            target, kernel = self.target, lower(spec, self.target)
            modules = emit_modules(
                kernel, ANY_NAME, target.triple, target.half_instructions, target.permuted_lanes
            )
            code = [compile_text(text, target, None, level) for text, level in zip(modules, LEVELS)]
            self._kernels[spec] = kernel, digest(joined(code))
        return self._kernels[spec]

    def program(self, graph: Graph, level: str) -> Digests:
        """What `graphc.compile` makes of a graph, on one thread and on several."""
        _, plan = plan_graph(graph, level, preferred=preferred_layouts(self.target))
        digests = {"plan": digest(print_plan(plan, locations=False).encode())}
        native, extents = {}, {}
        for spec, name in kernels(plan).items():
            if not spec.has_loops:
                native[spec], extents[spec] = NativeKernel(f"host_{name}", 0, 1, 0), 1
                continue
            kernel, digests[name] = self.kernel(spec)
            extents[spec] = fixed(kernel.extent)
            scratch = scratch_layout(kernel)[1]
            native[spec] = NativeKernel(name, 0, kernel.extent, scratch)
        digests["driver"] = self._driver(Driver(plan, native, one_thread(plan, "asked for")))
        several, schedule = spread(plan, work_of(extents), THREADS)
        digests[f"driver of {THREADS} threads"] = self._driver(Driver(several, native, schedule))
        return digests

    def _driver(self, driver: Driver) -> str:
        return digest(
            compile_text(driver.text(self.target.triple), self.target, level=DRIVER_LEVEL)
        )


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]


def digests_of(name: str, compilers: Sequence[Compiler]) -> dict[str, Digests]:
    """For each target the digests of all calls of a workload's step."""
    reference = f"{Path(__file__).with_name('steps.py')}:{name}"
    by_target: dict[str, Digests] = {compiler.target.name: {} for compiler in compilers}
    with loaded_calls(reference, []) as calls:
        for number, call in enumerate(calls):
            for compiler in compilers:
                program = compiler.program(call.graph, call.options.level)
                digests = {f"{number}/{part}": text for part, text in program.items()}
                by_target[compiler.target.name] |= digests
    return by_target


def differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """A line for each digest of `after` that is another one, or not there, in `before`, and for
    each that is there only."""
    for workload, targets in after.items():
        for target, digests in targets.items():
            known = before.get(workload, {}).get(target, {})
            for part in {**known, **digests}:
                if known.get(part) != digests.get(part):
                    yield f"{workload} {target} {part}: {known.get(part)} -> {digests.get(part)}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Digests of the code of all workloads")
    parser.add_argument("--only", default="", metavar="PATTERN", help="part of a name, or *")
    parser.add_argument("--small", action="store_true", help="at the size of the tests")
    parser.add_argument("--target", action="append", choices=TARGETS, help="all where none is")
    parser.add_argument("--against", type=Path, metavar="FILE", help="digests of another checkout")
    options = parser.parse_args()
    compilers = [Compiler(named(name)) for name in options.target or TARGETS]
    by_name: dict[str, dict[str, Digests]] = {}
    for workload in chosen(options.only):
        name = "small_" * options.small + workload.name.replace("-", "_")
        started = time.process_time()
        by_name[name] = digests_of(name, compilers)
        count = sum(len(digests) for digests in by_name[name].values())
        took = time.process_time() - started
        print(f"{name}: {count} digests, {took:.1f} s of processor", file=sys.stderr, flush=True)
    if not by_name:
        parser.error(f"no workload is named like {options.only!r}")
    if options.against is None:
        print(json.dumps(by_name, indent=1))
        return
    lines = list(differences(json.loads(options.against.read_text()), by_name))
    total = sum(len(digests) for targets in by_name.values() for digests in targets.values())
    print(*lines, f"{len(lines)} of {total} digests differ", sep="\n")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()

"""Digests of what the compiler makes for one target.

in : a graph with an example of its open sizes, or the body of a contraction
out: by part (the plan, each kernel, each driver) a digest of its loops, or of its object code

Kernels are compiled under one name, and drivers call them by their number in the plan, so that
names of symbols do not count. Nothing is loaded or run: every machine gives the code of all
targets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from code_digests.loop_text import loop_text
from graphc.codegen.kernels.common import lanes_for
from graphc.codegen.kernels.contraction.problem.problem import problems
from graphc.codegen.kernels.contraction.recipe import plan_kernel
from graphc.codegen.kernels.contraction.strategies.table import StrategyPlan, asked
from graphc.codegen.kernels.lower import lower
from graphc.codegen.kernels.size_class import size_class, within
from graphc.codegen.llvm.jit import ANY_NAME, LEVELS
from graphc.codegen.llvm.kernel import emit_modules, scratch_layout
from graphc.codegen.llvm.loading import LoadedFunction
from graphc.codegen.llvm.native import DRIVER_LEVEL, compile_text, joined
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.options import CompileOptions
from graphc.codegen.program.driver import Driver
from graphc.codegen.program.native_kernel import NativeKernel, SizeVariant
from graphc.codegen.program.on_threads import on_threads
from graphc.codegen.stages import Stages
from graphc.codegen.target import Target
from graphc.errors import GraphError
from graphc.ir.nodes import Graph
from graphc.records import replace
from graphc.schedule.plan import KernelSpec, Plan, kernels, print_plan
from graphc.schedule.threads import one_thread

THREADS = 4
NOWHERE = LoadedFunction(0)
Digests = dict[str, str]


@dataclass(frozen=True, slots=True)
class _Made:
    """A kernel and its digest; for sizes of a class another one."""

    native: NativeKernel
    digest: str
    of_class: str = ""


class Compiler:
    """Digests for one target; equal kernels are compiled once. `loops`: of loops alone, which takes
    no LLVM."""

    def __init__(self, target: Target, loops: bool = False):
        self.target = target
        self.loops = loops
        self._kernels: dict[KernelSpec, _Made] = {}
        self._codes: dict[str, str] = {}

    def program(self, graph: Graph, level: str, example: Mapping[str, int]) -> Digests:
        """What `graphc.compile` makes of a graph, on one thread and on several. What is refused has
        the error for its one part."""
        try:
            return self._program(graph, level, example)
        except GraphError as error:
            return {"refused": digest(f"{type(error).__name__}: {error}")}

    def _program(self, graph: Graph, level: str, example: Mapping[str, int]) -> Digests:
        plan = Stages(graph, CompileOptions(level, self.target), None, example).plan
        digests, native = {"plan": digest(print_plan(plan, locations=False))}, {}
        for spec, name in kernels(plan).items():
            if not spec.has_loops:
                native[spec] = NativeKernel(f"host_{name}", NOWHERE, 1, 0)
                continue
            made = self._made(spec)
            digests[name] = made.digest
            if made.of_class:
                digests[f"{name} of a size class"] = made.of_class
            native[spec] = _named(made.native, name)
        digests["driver"] = self._driver(Driver(plan, native, one_thread(plan, "asked for")))
        digests[f"driver of {THREADS} threads"] = self._driver(_on_threads(plan, native))
        return digests

    def strategies(self, body: Graph) -> Digests:
        """The kernel of a contraction by each strategy that has a plan for it, its cheapest."""
        lanes, digests = lanes_for(body, self.target), {}
        plans: dict[str, list[StrategyPlan]] = {}
        for problem in problems(body, lanes):
            for strategy in asked(problem):
                of_strategy = plans.setdefault(strategy.__name__, [])
                of_strategy += strategy.candidates(problem, self.target)
        for name, possible in plans.items():
            if possible:
                kernel = plan_kernel("kernel", min(possible, key=lambda plan: plan.cost), lanes)
                digests[name] = self._code(kernel)
        return digests

    def _made(self, spec: KernelSpec) -> _Made:
        if spec in self._kernels:
            return self._kernels[spec]
        kernel, apart = lower(spec, self.target), size_class(spec, self.target)
        of_class = None if apart is None else self._made(within(spec, apart))
        variant = None
        if apart is not None and of_class is not None:
            variant = SizeVariant(apart, of_class.native)
        native = NativeKernel(
            "", NOWHERE, kernel.extent, scratch_layout(kernel)[1],
            tuple(size.name for size in kernel.dims), variant,
        )  # fmt: skip
        made = _Made(native, self._code(kernel), of_class.digest if of_class else "")
        self._kernels[spec] = made
        return made

    def _code(self, kernel: Kernel) -> str:
        loops = digest(loop_text(kernel))
        if self.loops:
            return loops
        if loops not in self._codes:
            target = self.target
            modules = emit_modules(kernel, ANY_NAME, target)
            code = [compile_text(text, target, None, level) for text, level in zip(modules, LEVELS)]
            self._codes[loops] = digest(joined(code))
        return self._codes[loops]

    def _driver(self, driver: Driver) -> str:
        text = driver.text(self.target.triple)
        table = driver.sizes.program()
        code = text if self.loops else compile_text(text, self.target, level=DRIVER_LEVEL)
        return digest(code) if table is None else f"{digest(code)} table {digest(table.text)}"


def _on_threads(plan: Plan, native: Mapping[KernelSpec, NativeKernel]) -> Driver:
    threaded = on_threads(plan, {spec: kernel.extent for spec, kernel in native.items()}, THREADS)
    return Driver(threaded.plan, native, threaded.schedule)


def _named(kernel: NativeKernel, name: str) -> NativeKernel:
    variant = kernel.variant
    if variant is not None:
        variant = replace(variant, kernel=replace(variant.kernel, symbol=f"{name}_of_class"))
    return replace(kernel, symbol=name, variant=variant)


def digest(content: bytes | str) -> str:
    content = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(content).hexdigest()[:24]

"""What is needed to run a compiled graph, and nothing else; kept on disk by the graph's text.

A graph that was compiled before needs no pass, no lowering and no LLVM: one file holds its program
and the object code of all its kernels and drivers. Its name is a hash of the graph's text and of
all that the outcome depends on: level, options, threads, processor, LLVM, and the compiler itself.
The optimised graph and the plan lie in the file too, and are read only when asked for.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from graphc.codegen.cache.object_cache import ObjectCache, user_cache
from graphc.codegen.llvm.loading import LoadedFunction, load, load_driver, loaded_kernel
from graphc.codegen.program.host_kernels import host_kernel
from graphc.codegen.program.native_program import NativeProgram
from graphc.codegen.program.single_launch import single_driver, with_kernel
from graphc.codegen.program.size_table import ARENA, SCRATCH
from graphc.codegen.target import Target, running
from graphc.ir.instances import substitute, type_at
from graphc.ir.nodes import Constant, Graph
from graphc.ir.size_guards import SizeGuard
from graphc.ir.types import TensorType
from graphc.ir.undecided import granted
from graphc.records import record, replace
from graphc.schedule.plan import Check, Launch, Plan, all_checks, all_steps
from graphc.system import IMPORTING, source_digest

Details = Callable[[], tuple[Graph, Plan]]


@record
class Program:
    """A linked plan without its steps. `checks` are in the order of the driver's verdicts.

    Where sizes are known only at run time, types and bounds hold extents, and `example` and
    `guards` are the plan's; `program_at` gives the program at certain sizes, which has the `table`
    that the driver reads."""

    argument_types: tuple[TensorType, ...]
    output_types: tuple[TensorType, ...]
    aliases: tuple[tuple[int, int], ...]
    constants: tuple[Constant, ...]
    checks: tuple[Check, ...]
    arena_bytes: int
    arena_lower_bound: int
    launches: int
    native: NativeProgram
    example: tuple[tuple[str, int], ...] = ()
    guards: tuple[SizeGuard, ...] = ()
    table: tuple[int, ...] = ()


def program_of(plan: Plan, native: NativeProgram) -> Program:
    launches = sum(isinstance(step, Launch) for step in all_steps(plan))
    program = Program(
        plan.argument_types, plan.output_types, plan.aliases, plan.constants,
        tuple(all_checks(plan)), plan.arena_bytes, plan.arena_lower_bound, launches, native,
        plan.example, plan.guards,
    )  # fmt: skip
    return _with_table(program)


def _with_table(program: Program) -> Program:
    """With the table that the driver of a single launch reads, where there are no sizes."""
    native = program.native
    if native.kernel is None or program.example:
        return program
    assert native.sizes is not None
    return replace(program, table=with_kernel(native.sizes.table({}), native.kernel.address))


def program_at(program: Program, sizes: Mapping[str, int]) -> Program:
    """The program at these sizes."""
    assert program.native.sizes is not None
    table = tuple(program.native.sizes.table(sizes))
    native = replace(program.native, arena_bytes=table[ARENA], scratch_stride=table[SCRATCH])
    if native.kernel is not None:
        table = with_kernel(table, native.kernel.address)
    if native.by_size is not None and native.work is not None:
        schedule, decisions = native.by_size.at(native.work.table(sizes))
        native, table = replace(native, schedule=schedule), (*table, *decisions)
    return replace(
        program,
        argument_types=tuple([type_at(type, sizes) for type in program.argument_types]),
        output_types=tuple([type_at(type, sizes) for type in program.output_types]),
        checks=tuple([_check_at(check, sizes) for check in program.checks]),
        arena_bytes=native.arena_bytes, arena_lower_bound=0, table=table, native=native,
    )  # fmt: skip


def _check_at(check: Check, sizes: Mapping[str, int]) -> Check:
    if check.bound is None or isinstance(check.bound, int):
        return check
    return replace(check, bound=substitute(check.bound, sizes))


def program_key(graph: Graph, target: Target, *options: Any) -> str:
    """The name of a graph's program: equal ones compile to the same, down to source lines
    of the same files."""
    with IMPORTING:
        from llvmlite import binding

    places = sorted({node.location.path for node in graph.nodes if node.location})
    facts = (
        source_digest(), binding.llvm_version_info, target, options, str(graph), places,
    )  # fmt: skip
    return "program_" + hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


T = TypeVar("T")


def remembered(
    purpose: str, graph: Graph, options: Any, make: Callable[[], T], target: str | None = None,
    keeps: Callable[[T], bool] = lambda value: True,
) -> T:  # fmt: skip
    """What `make` gives for a graph, from disk where it was made before: a pure function of the
    graph, `purpose`, `options` and the target, which can be pickled. Values that `keeps` says no to
    are not written."""
    store = user_cache()
    if store is None:
        return make()
    chosen = running(target)
    key = program_key(graph, chosen, purpose, options)
    payload = store.get(key)
    if payload is not None:
        value: T = _loaded(payload)
        return value
    value = make()
    if keeps(value):
        facts = {"kernel": f"{purpose} {graph.name}", "target": chosen.key}
        store.put(key, pickle.dumps(value), facts)
    return value


def keep(store: ObjectCache, key: str, program: Program, optimised: Graph, plan: Plan) -> None:
    """Write a program to disk."""
    native = program.native
    drivers = [(name, driver.source) for name, driver in native.drivers]
    kept = replace(program, native=native.unloaded(), table=())
    loaded = {symbol: loaded_kernel(symbol) for symbol in native.kernels}
    objects = {symbol: kernel.source for symbol, kernel in loaded.items() if kernel is not None}
    content = (kept, drivers, objects, pickle.dumps((optimised, plan)))
    kernels = [symbol.removeprefix("kernel_")[:16] for symbol in native.kernels]
    facts = {"kernel": f"program {optimised.name}", "target": native.target, "kernels": kernels}
    store.put(key, pickle.dumps(content), facts)


def kept(store: ObjectCache, key: str) -> tuple[Program, Details] | None:
    """A program from disk, loaded, and how to read the rest; None where there is none."""
    payload = store.get(key)
    if payload is None:
        return None
    program, drivers, objects, details = _loaded(payload)
    functions = load(objects)
    if program.native.is_single:
        return _single(program, functions), functools.partial(_loaded, details)
    for kernel in map(host_kernel, program.native.hosts):
        functions[kernel.symbol] = kernel.function
    for name, driver in drivers:
        functions[name] = load_driver(driver, functions)
    native = replace(program.native, driver=functions["driver"])
    return replace(program, native=native), functools.partial(_loaded, details)


def _single(program: Program, functions: Mapping[str, LoadedFunction]) -> Program:
    """A program of one launch whose kernel is loaded."""
    (kernel,) = functions.values()
    arrays = len(program.argument_types) + len(program.output_types)
    driver = single_driver(arrays, running(None))
    native = replace(program.native, driver=driver, kernel=kernel)
    return _with_table(replace(program, native=native))


def _loaded(payload: bytes) -> Any:
    with granted():
        return pickle.loads(payload)

"""What benchmarks tell about compiled functions: kernels, launches, bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def executables(function: Any) -> list[Any]:
    """Those of a compiled function of the frontend."""
    return [executable for each in function.specializations for executable in each.executables]


def executables_of_calls(function: Any) -> list[Any]:
    """Those that calls run and backwards of calls: not those that pack weights ahead of them."""
    return [
        executable
        for each in function.specializations
        for executable in (each.executables if each.packing is None else [each.executable])
    ]


def launches(plan: Any, runs: int = 1) -> Iterator[tuple[Any, int]]:
    """The kernel launches of a plan, those inside its loops and branches too, and how often a call
    makes each (1 in a branch or a loop whose count is not known)."""
    for step in plan.steps:
        if hasattr(step, "kernel"):
            yield step, runs
            continue
        for inner in getattr(step, "plans", ()):
            yield from launches(inner, runs * (getattr(step, "count", None) or 1))


def facts(functions: list[Any]) -> dict[str, Any]:
    """Of compiled functions together: distinct kernels, launches a call, compile time, bytes of the
    arenas, and of arguments (parameters and state among them), results and working memory of a
    call. What packs weights ahead of calls counts in kernels and compile time."""
    compiled = [one for function in functions for one in executables_of_calls(function)]
    plans = [executable.plan for executable in compiled]
    launched = [pair for plan in plans for pair in launches(plan)]
    all_of_them = [one for function in functions for one in executables(function)]
    return {
        "kernels": len({launch.kernel for one in all_of_them for launch, _ in launches(one.plan)}),
        "launches": sum(runs for _, runs in launched),
        "compile_s": sum(function.compile_seconds for function in functions),
        "arena_bytes": sum(plan.arena_bytes for plan in plans),
        "planned_bytes": sum(map(_bytes_of_a_call, compiled)),
    }


def _bytes_of_a_call(executable: Any) -> int:
    plan = executable.plan
    updated = dict(plan.aliases)
    results = [type for i, type in enumerate(plan.output_types) if i not in updated]
    arrays = sum(type.nbytes for type in (*plan.argument_types, *results))
    return int(arrays + executable._program.native.block_bytes)

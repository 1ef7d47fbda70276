"""The fourteen workloads as functions that the commands of graphc can be asked about.

    graphc verify benchmarks/steps.py:resnet18_sgd
    graphc profile benchmarks/steps.py:gpt_1
    graphc compare benchmarks/steps.py:lstm_adam

A name is that of a workload with `_` for `-`; `small_…` is the same at the size of the tests. Each
is built when it is asked for. Training workloads are whole steps and return the loss.

    python benchmarks/steps.py verify
    python benchmarks/steps.py profile --only 'gpt*' --small

take all of them through `verify`, or look whether each kernel is in a profile with its limit.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from workloads import WORKLOADS, Workload, chosen, initial_state, load, loss_of

import frontend
from graphc.debug.load import loaded_calls
from graphc.debug.traced import TracedCall
from graphc.ir.types import TensorType

NAMES = {workload.name.replace("-", "_"): workload for workload in WORKLOADS}
SMALL = "small_"


def __getattr__(name: str) -> Any:
    workload = NAMES.get(name.removeprefix(SMALL))
    if workload is None:
        raise AttributeError(f"there is no workload {name!r}: {', '.join(NAMES)}")
    step = make(workload, "small" if name.startswith(SMALL) else "full")
    globals()[name] = step
    return step


def __dir__() -> list[str]:
    return [*globals(), *NAMES, *(SMALL + name for name in NAMES)]


def make(workload: Workload, size: str = "full") -> Callable[..., Any]:
    """The step of a workload, or its inference, as a function of its batch."""
    before = frontend.get_eager_backend()
    frontend.set_eager_backend("numpy")  # weights are the same ones whatever computes the step
    try:
        model = workload.model(frontend, **workload.sizes(size))
        state = initial_state(workload, size)
        if state:
            load(frontend, model, state)
    finally:
        frontend.set_eager_backend(before)
    function = training(workload, model) if workload.trains else _inference(workload, model)
    function.__name__ = function.__qualname__ = workload.name.replace("-", "_")
    inputs = workload.inputs(size)
    names = ("x", "y")[: len(inputs)]
    function.__annotations__ = {
        name: Annotated[Any, _declared(workload, size, array)]
        for name, array in zip(names, inputs, strict=True)
    }
    return function


def training(workload: Workload, model: Any) -> Callable[..., Any]:
    """A step of the workload's optimizer on batches `x`, `y`: its loss."""
    assert workload.optimizer is not None
    make = getattr(frontend.optim, workload.optimizer.name)
    optimizer = make(model.parameters(), **workload.optimizer.options)

    def step(x: Any, y: Any) -> Any:
        loss = loss_of(frontend, model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def _inference(workload: Workload, model: Any) -> Callable[..., Any]:
    if workload.has_model:
        model.eval()

    def infer(x: Any) -> Any:
        with frontend.inference_mode():
            return model(x)

    return infer


def _declared(workload: Workload, size: str, array: np.ndarray[Any, Any]) -> str:
    """An input's type, of integers with what they stay below: labels, or places in a vocabulary."""
    text = str(TensorType.of(array))
    if array.dtype.kind == "f":
        return text
    is_text = workload.name.startswith("gpt")
    below = (workload.sizes(size).get("vocabulary", 65)) if is_text else 10
    return f"{text}<{below}"


# -- all of them -----------------------------------------------------------------------------------


def verified(calls: list[TracedCall]) -> Iterator[str]:
    """What does not hold."""
    from graphc.debug.verification.verifier import verify_calls

    for each in verify_calls(calls):
        for finding in each.findings:
            yield f"{finding.blame}: {finding.what}"


def profiled(calls: list[TracedCall]) -> Iterator[str]:
    """Kernels of the plan that the profile misses, or has without a limit."""
    from graphc.debug.profile.calls import profile_calls
    from graphc.schedule.plan import kernels

    for call, profile in zip(calls, profile_calls(calls, seconds=0.05), strict=True):
        launches = {step.name: step for step in profile.launches}
        for name in kernels(call.executable().plan).values():
            step = launches.get(name)
            if step is None:
                yield f"{name} is not in the profile"
            elif step.limit is None or not step.limit.bound or not step.limit_seconds > 0:
                yield f"{name} has no limit"


CHECKS = {"verify": verified, "profile": profiled}


def main() -> None:
    parser = argparse.ArgumentParser(description="All workloads through a tool of graphc")
    parser.add_argument("check", choices=tuple(CHECKS))
    parser.add_argument("--only", default="", metavar="PATTERN", help="part of a name, or *")
    parser.add_argument("--small", action="store_true", help="at the size of the tests")
    options = parser.parse_args()
    if not chosen(options.only):
        parser.error(f"no workload is named like {options.only!r}")
    failed = False
    for workload in chosen(options.only):
        name = SMALL * options.small + workload.name.replace("-", "_")
        started = time.process_time()
        with loaded_calls(f"{__file__}:{name}", []) as calls:
            problems = list(CHECKS[options.check](calls))
        failed |= bool(problems)
        took = time.process_time() - started
        print(f"{'DIFF' if problems else 'ok  '}  {name}: {took:.1f} s of processor", flush=True)
        for line in problems:
            print(f"      {line}")
    sys.exit(failed)


if __name__ == "__main__":
    main()

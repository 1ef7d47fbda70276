"""The fourteen workloads as functions that the commands of graphc can be asked about.

    graphc verify benchmarks/steps.py:resnet18_sgd
    graphc profile benchmarks/steps.py:gpt_1
    graphc compare benchmarks/steps.py:lstm_adam

A name is that of a workload with `_` for `-`; `small_…` is the same at the size of the tests. Each
is built when it is asked for. Training workloads are whole steps and return the loss.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from workloads import WORKLOADS, Workload, initial_state, load, loss_of

import frontend
from graphc.ir.types import TensorType

NAMES = {workload.name.replace("-", "_"): workload for workload in WORKLOADS}
SMALL = "small_"


def __getattr__(name: str) -> Any:
    workload = NAMES.get(name.removeprefix(SMALL))
    if workload is None:
        raise AttributeError(f"there is no workload {name!r}: {', '.join(NAMES)}")
    made = make(workload, "small" if name.startswith(SMALL) else "full")
    globals()[name] = made
    return made


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
    function = _training(workload, model) if workload.trains else _inference(workload, model)
    function.__name__ = function.__qualname__ = workload.name.replace("-", "_")
    inputs = workload.inputs(size)
    names = ("x", "y")[: len(inputs)]
    function.__annotations__ = {
        name: Annotated[Any, _declared(workload, size, array)]
        for name, array in zip(names, inputs, strict=True)
    }
    return function


def _training(workload: Workload, model: Any) -> Callable[..., Any]:
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

"""The workloads of the benchmarks, at small sizes: compiled steps give what eager steps give.

Tolerances are relative to the greatest element. Eager runs on NumPy, whose sums have another order
than compiled ones, so some units in the last place differ at each step and grow with the steps.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))
try:
    import kernels
    import plan_facts
    import workloads
finally:
    sys.path.remove(str(BENCHMARKS))

STEPS = 8
LOSS_TOLERANCE = 2e-5
OUTPUT_TOLERANCE = 2e-6
STATE_TOLERANCE = 1e-4
NAMES = [workload.name for workload in workloads.WORKLOADS]
TRAINED = [workload.name for workload in workloads.WORKLOADS if workload.trains]


def prepared(name: str, **options: Any) -> Any:
    workload = workloads.BY_NAME[name]
    state = workloads.initial_state(workload, "small")
    return workloads.prepare(frontend, workload, state, size="small", **options)


def compiled(level: str = "exact", keep_grads: bool = False) -> Any:
    return lambda function: frontend.compile(function, level=level, keep_grads=keep_grads)


def values(step: Any, steps: int = STEPS) -> list[Any]:
    return [np.array(step.step().detach().numpy()) for _ in range(steps)]


def difference(actual: Any, expected: Any) -> float:
    """The greatest difference, as a part of the greatest element expected."""
    assert actual.shape == expected.shape
    if not expected.size:
        return 0.0
    return float(np.max(np.abs(actual - expected)) / max(np.max(np.abs(expected)), 1e-30))


def determined(name: str, parameter: Any) -> Any:
    """A parameter without what rounding alone decides: attention does not change with the keys'
    bias, so its gradient is rounding noise, and Adam scales noise up to its step size."""
    if not name.endswith("qkv.bias"):
        return parameter
    queries, _, values = np.split(parameter, 3)
    return np.concatenate([queries, values])


def test_there_are_fourteen_workloads() -> None:
    assert len(NAMES) == len(set(NAMES)) == 14
    assert sum(workload.trains for workload in workloads.WORKLOADS) == 6


@pytest.mark.sampled(18)
@pytest.mark.parametrize("level", ["exact", "relaxed"])
@pytest.mark.parametrize("name", NAMES)
def test_compiled_gives_the_eager_results(name: str, level: str) -> None:
    trains = workloads.BY_NAME[name].trains
    steps, tolerance = (STEPS, LOSS_TOLERANCE) if trains else (2, OUTPUT_TOLERANCE)
    expected = values(prepared(name), steps)
    actual = values(prepared(name, compile=compiled(level)), steps)
    for one, other in zip(actual, expected, strict=True):
        assert difference(one, other) < tolerance


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", TRAINED)
def test_compiled_training_leaves_the_eager_state(name: str) -> None:
    """Parameters, buffers and the optimizer's state, after some steps."""
    eager, native = prepared(name), prepared(name, compile=compiled())
    values(eager)
    values(native)
    own = {**dict(native.model.named_parameters()), **dict(native.model.named_buffers())}
    other = {**dict(eager.model.named_parameters()), **dict(eager.model.named_buffers())}
    for key, tensor in own.items():
        actual, expected = (determined(key, one.detach().numpy()) for one in (tensor, other[key]))
        assert difference(actual, expected) < STATE_TOLERANCE, key
    kept = native.optimizer.state_dict()["state"]
    for key, state in eager.optimizer.state_dict()["state"].items():
        for what, tensor in state.items():
            actual, expected = np.asarray(kept[key][what]), np.asarray(tensor)
            assert difference(actual, expected) < STATE_TOLERANCE


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TRAINED)
def test_training_lowers_the_loss(name: str) -> None:
    losses = values(prepared(name, compile=compiled()))
    assert losses[-1] < losses[0]


def test_gradients_that_are_kept_change_no_bit() -> None:
    dropped = values(prepared("mlp-adam", compile=compiled()))
    kept = values(prepared("mlp-adam", compile=compiled(keep_grads=True)))
    assert [one.tobytes() for one in dropped] == [one.tobytes() for one in kept]


def test_the_same_weights_and_inputs_each_time() -> None:
    workload = workloads.BY_NAME["gpt-1"]
    one, other = (workloads.initial_state(workload, "small") for _ in range(2))
    assert one.keys() == other.keys()
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)
    assert workload.inputs()[0].tobytes() == workload.inputs()[0].tobytes()


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", NAMES)
def test_eager_on_native_kernels_gives_the_compiled_bits(name: str) -> None:
    steps = 50 if workloads.BY_NAME[name].trains else 2
    eager = values(prepared(name), steps)
    whole = values(prepared(name, compile=compiled()), steps)
    assert [x.tobytes() for x in eager] == [x.tobytes() for x in whole]


@pytest.mark.parametrize("name", ["mlp-1", "chain"])
def test_kernels_of_a_step_are_those_of_its_plan(name: str) -> None:
    """Also where weights are packed ahead of the calls that are measured."""
    executable, arrays = kernels.compiled_step(workloads.BY_NAME[name], "exact", "small")
    timed = kernels.Launches(executable, arrays).timed
    launches = [launch for launch, _ in plan_facts.launches(executable.plan)]
    assert [one.launch for one in timed] == launches and launches
    assert [x.shape for x in arrays] == [type.shape for type in executable.plan.argument_types]

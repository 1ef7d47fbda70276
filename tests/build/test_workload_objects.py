"""The fourteen workloads of the benchmarks, small, as objects of an open batch: calls of seven
sizes have the bits of the compiled function, loaded into this process and as C programs."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend
from frontend.engine.compiled.building import source_of
from frontend.engine.tensors import tree
from frontend.engine.tracing.tracer import labels_of
from tests.build.c_programs import holds, targets
from tests.build.loaded import LoadedObject

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.append(str(BENCHMARKS))
try:
    import workload_models  # noqa: F401
    import workloads
finally:
    sys.path.remove(str(BENCHMARKS))

NAMES = [workload.name for workload in workloads.WORKLOADS]
FAST = [name for name in NAMES if not workloads.BY_NAME[name].has_model]
SIZES = (2, 5, 1, 9, 16, 3, 4)


def of_batch(name: str) -> tuple[Any, list[Any]]:
    """The compiled function of a workload, its batch open, and its arguments."""
    workload = workloads.BY_NAME[name]
    plain: list[Any] = []

    def keep(function: Any) -> Any:
        plain.append(function)
        return function

    state = workloads.initial_state(workload, "small")
    prepared = workloads.prepare(frontend, workload, state, size="small", compile=keep)
    (function,) = plain
    labels = labels_of(function, tree.flatten((tuple(prepared.batch), {}), []))
    dynamic = {label: {0: "batch"} for label in labels}
    return frontend.compile(function, threads=1, dynamic=dynamic), list(prepared.batch)


@pytest.mark.parametrize("target", ["host", pytest.param("x86-64-v2", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow)
                                  for n in NAMES])  # fmt: skip
def test_calls_have_the_bits_of_the_compiled_function(name: str, target: str) -> None:
    function, batch = of_batch(name)
    arrays = [np.array(tensor.numpy()) for tensor in batch]
    trains = workloads.BY_NAME[name].trains
    with frontend.set_grad_enabled(trains):
        source = source_of(function.function, batch, {}, function.options, False)
        loaded = LoadedObject(source, target)
        assert [symbol.name for symbol in source.sizes] == ["batch"]
        state = loaded.state(loaded.file)
        for size in SIZES:
            drawn = [np.resize(array, (size, *array.shape[1:])) for array in arrays]
            expected = function(*map(frontend.tensor, drawn)).detach().numpy()
            results, text = loaded.call(state, drawn, batch=size)
            assert text == ""
            assert results[0].tobytes() == expected.tobytes(), size
    program = function.specializations[-1].program
    sources = dict(zip(program.inputs.names, program.inputs.sources, strict=True))
    for label, array in loaded.fields(state).items():
        assert array.tobytes() == np.array(sources[label].array(())).tobytes(), label


def sized(batch: list[Any], rows: int) -> list[Any]:
    """These arguments with so many rows."""
    arrays = [np.array(tensor.numpy()) for tensor in batch]
    return [frontend.tensor(np.resize(array, (rows, *array.shape[1:]))) for array in arrays]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.long)
                                  for n in NAMES])  # fmt: skip
def test_ten_calls_of_c_programs_have_the_bits_of_this_process(tmp_path: Path, name: str) -> None:
    function, batch = of_batch(name)
    plain = name.replace("-", "_")
    example = sized(batch, 8)  # of which main.c makes calls of 8, 5, 1, 17, 3, 15, 42 and, maybe, 0
    for target in targets():
        folder = tmp_path / target
        with frontend.set_grad_enabled(workloads.BY_NAME[name].trains):
            function.build(folder, *example, target=target, name=plain, calls=10)
        sizes = re.findall(r"_work_bytes\(INT64_C\((\d+)\)", (folder / "main.c").read_text())
        assert len(sizes) == 10 and len({*sizes}) >= 7
        holds(folder, plain, target)

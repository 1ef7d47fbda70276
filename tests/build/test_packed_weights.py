"""Weights that calls of an object read packed: what packs them, what tells that they were written,
and what stays as it lies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.engine.compiled.building import source_of
from frontend.engine.tensors.tensor import Tensor
from graphc.codegen.target import executable
from tests.build.loaded import LoadedObject
from tests.build.models import compiled
from tests.build.test_webassembly import node, runs

TARGETS = [target.name for target in executable()]


def loaded_of(function: Any, *arguments: Any, target: str = "host", **options: Any) -> LoadedObject:
    return LoadedObject(
        source_of(function.function, arguments, {}, function.options, False), target, **options
    )


def layers() -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 40)).eval()
    return model, torch.compile(model, threads=1, dynamic={"input": {0: "batch"}})


def drawn(n: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, 64)).astype(np.float32)


def result_of(loaded: LoadedObject, state: Any, x: np.ndarray) -> Any:
    results, text = loaded.call(state, [x], batch=len(x))
    assert text == ""
    return results[0]


@pytest.mark.parametrize("target", TARGETS)
def test_weights_that_were_written_are_told_and_packed_anew(target: str) -> None:
    model, function = layers()
    with torch.no_grad():
        loaded = loaded_of(function, torch.tensor(drawn(5)), target=target)
        assert loaded.built.packed_weights == {"module.0.weight", "module.2.weight"}
        state, plain = loaded.state(), drawn(7)
        expected = function(torch.tensor(plain)).numpy()
        assert result_of(loaded, state, plain).tobytes() == expected.tobytes()
        for label in ("module.2.weight", "module.0.weight"):
            loaded.field(state, label)[...] *= 2
            before = state.tobytes()
            _, text = loaded.call(state, [plain], batch=7)
            key = label.removeprefix("module.")
            assert text == f"{key} was written: built_prepare packs it anew"
            assert state.tobytes() == before
            assert loaded.functions["built_prepare"](state.ctypes.data) == 0
            model[int(key[0])].weight.mul_(2)
            expected = function(torch.tensor(plain)).numpy()
            assert result_of(loaded, state, plain).tobytes() == expected.tobytes()


def test_a_state_of_another_object_is_not_prepared() -> None:
    _, function = layers()
    loaded = loaded_of(function, torch.tensor(drawn(5)))
    state = loaded.state()
    state[8] ^= 1
    status = loaded.functions["built_prepare"](state.ctypes.data)
    assert loaded.text(status) == "the state was not made by built_init of this object"


def test_files_have_no_packed_values() -> None:
    _, function = layers()
    loaded = loaded_of(function, torch.tensor(drawn(5)), embeds=False)
    assert loaded.built.packed and loaded.layout.prepared_bytes
    assert len(loaded.file) < loaded.layout.prepared + 1000
    one, two = loaded.state(loaded.file), loaded.state(loaded.file)
    assert result_of(loaded, one, drawn(3)).tobytes() == result_of(loaded, two, drawn(3)).tobytes()


def test_small_fields_and_numbers_are_read_where_they_lie() -> None:
    scale, shift = torch.tensor(2.0), torch.tensor([1.0])
    rows = torch.randn(8, 3)
    function = torch.compile(lambda x: x * scale.exp() + shift.exp() + rows.exp().sum(0), threads=1)
    loaded = loaded_of(function, torch.ones(4, 3))
    assert loaded.built.packed_weights == {"rows"}
    state = loaded.state()
    loaded.field(state, "scale")[...] = 3.0
    (result,), text = loaded.call(state, [np.ones((4, 3), np.float32)])
    scale.fill_(3.0)
    assert text == "" and result.tobytes() == function(torch.ones(4, 3)).numpy().tobytes()


def test_what_some_sizes_write_no_size_reads_packed() -> None:
    weight, other = torch.randn(64, 48), torch.randn(64, 48)

    def step(x: Tensor) -> Tensor:
        result = x @ weight + x @ other
        if x.shape[0] == 1:
            weight.mul_(0.5)
        return result

    function = torch.compile(step, threads=1, dynamic={"x": {0: "batch"}})
    loaded = loaded_of(function, torch.tensor(drawn(5)))
    assert len(loaded.built.programs) > 1
    assert loaded.built.packed_weights == {"other"}
    state = loaded.state()
    for n in (5, 1, 4, 1, 2):
        expected = function(torch.tensor(drawn(n))).numpy()
        assert result_of(loaded, state, drawn(n)).tobytes() == expected.tobytes(), n


def test_what_depends_on_open_sizes_stays_in_the_call() -> None:
    table, weight = torch.randn(200, 64), torch.randn(64, 48)
    function = torch.compile(
        lambda x: (x + table.exp()[: x.shape[0]].cumsum(0)) @ weight, threads=1,
        dynamic={"x": {0: "batch"}},
    )  # fmt: skip
    loaded = loaded_of(function, torch.tensor(drawn(5)))
    assert loaded.built.packed_weights == {"table", "weight"}
    state = loaded.state()
    for n in (5, 1, 33):
        expected = function(torch.tensor(drawn(n))).numpy()
        assert result_of(loaded, state, drawn(n)).tobytes() == expected.tobytes(), n


def test_a_step_packs_what_it_does_not_train() -> None:
    torch.manual_seed(0)
    fixed, head = nn.Linear(64, 48, bias=False), nn.Linear(48, 10)
    fixed.requires_grad_(False)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        loss = head((x @ fixed.weight.T).relu()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    function = torch.compile(step, threads=1, dynamic={"x": {0: "batch"}})
    loaded = loaded_of(function, torch.tensor(drawn(5)))
    (packed,) = loaded.built.packed_weights
    assert loaded.layout.offset(packed) == next(
        m.offset for m in loaded.layout.members if m.type.shape == (48, 64)
    )
    state = loaded.state()
    for n in (5, 9, 2):
        expected = function(torch.tensor(drawn(n))).detach().numpy()
        assert result_of(loaded, state, drawn(n)).tobytes() == expected.tobytes(), n
    (trained,) = (x for x in loaded.fields(state).values() if x.shape == (10, 48))
    assert trained.tobytes() == head.weight.detach().numpy().tobytes()


def test_at_level_none_nothing_is_packed() -> None:
    model, _ = layers()
    function = torch.compile(model, threads=1, level="none")
    assert not loaded_of(function, torch.tensor(drawn(5))).built.packed


# -- from Python and JavaScript --------------------------------------------------------------------

PROGRAM = """
import numpy as np
import built

x = np.load("x.npy")
state = built.ModelState()
results = [built.built(state, x)]
try:
    state.module_0_weight[0, 0] = 1
except ValueError as error:
    print(error)
state.module_0_weight = state.module_0_weight * 2
results.append(built.built(state.copy(), x))
results.append(built.built(state, x))
state.module_0_bias[...] = 1
results.append(built.built(state, x))
results.append(built.built(built.ModelState(state.to_bytes()), x))
try:
    state.module_9_weight = 1
except AttributeError as error:
    print(error)
np.savez("results.npz", *results)
"""


@pytest.mark.skipif(not shutil.which("cc"), reason="needs a C compiler")
@pytest.mark.parametrize("kind", ["shared", pytest.param("wheel", marks=pytest.mark.slow)])
def test_weights_that_python_assigns_are_packed_by_the_next_call(tmp_path: Path, kind: str) -> None:
    model, function = layers()
    x = torch.tensor(drawn(6))
    with torch.no_grad():
        (*_, last) = function.build(tmp_path, x, kind=kind, name="built").files
        expected = [function(x).numpy()]
        model[0].weight.mul_(2)
        expected += [function(x).numpy()] * 2
        model[0].bias.fill_(1)
        expected += [function(x).numpy()] * 2
    np.save(tmp_path / "x.npy", drawn(6))
    (tmp_path / "use.py").write_text(PROGRAM)
    place = last if kind == "wheel" else tmp_path
    if kind == "wheel":
        shutil.unpack_archive(last, tmp_path / "site", "zip")
        place = tmp_path / "site"
    environment = {"PYTHONPATH": str(place), "PATH": os.environ["PATH"]}
    command = [sys.executable, "use.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "assignment destination is read-only", "the state of built has no field module_9_weight",
    ]  # fmt: skip
    results = np.load(tmp_path / "results.npz")
    for name, array in zip(results.files, expected, strict=True):
        assert results[name].tobytes() == array.tobytes(), name


SCRIPT = """
import { readFileSync } from "node:fs";
import { built } from "./inference.mjs";
const bytes = (name) => new Uint8Array(readFileSync(name));
const step = await built(bytes("inference.wasm"));
step.init(bytes("inference.safetensors"));
const x = new Float32Array(64).fill(1), run = () => step.call({ batch: 1 }, x)[0][3];
const before = run();
step.field("module_2_weight").fill(0);
try { run(); } catch (error) { console.log(error.message); }
step.prepare();
console.log(run() === step.field("module_2_bias")[3], before !== run());
console.log(step.tables.fields.filter(({ packed }) => packed).map(({ name }) => name).join());
"""


def test_weights_that_javascript_writes_are_told_and_packed_anew(tmp_path: Path) -> None:
    if node() is None:
        pytest.skip("needs node")
    function, draw = compiled("inference")
    with torch.no_grad():
        function.build(tmp_path, *draw(4), name="inference", target="wasm32")
    (tmp_path / "use.mjs").write_text(SCRIPT)
    ran = runs("use.mjs", folder=tmp_path)
    assert ran.stdout.splitlines() == [
        "2.weight was written: inference_prepare packs it anew", "true true",
        "module_0_weight,module_2_weight",
    ], ran.stderr  # fmt: skip

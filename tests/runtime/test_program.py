"""Programs on disk: a graph that was compiled before is loaded, and only if it is the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.cache.object_cache import user_cache
from graphc.codegen.target import named
from graphc.ops.elementwise import tanh
from graphc.passes.recorder import Recorder
from graphc.runtime.program import program_key


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("GRAPHC_CACHE", str(tmp_path))
    return user_cache()


def layer(factor: float = 2.0) -> graphc.Graph:
    g = graphc.GraphBuilder("layer")
    x, w = g.input("x", "f32[3,4]"), g.input("w", "f32[4,5]")
    return g.finish(tanh(x @ w) * factor, aliases=())


def arrays() -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(np.float32) for s in ((3, 4), (4, 5))]


def programs(cache: Any) -> list[Path]:
    return [
        path
        for path in cache.folder.glob("??/*.object")
        if path.read_bytes().split(b"\n", 2)[1].startswith(b'{"symbol": "program_')
    ]


def test_a_hit_runs_no_pass_and_gives_the_same_bits(cache: Any) -> None:
    first = graphc.compile(layer())
    second = graphc.compile(layer())
    assert "plan" in first.timings and list(second.timings) == ["load"]
    assert first(*arrays())[0].tobytes() == second(*arrays())[0].tobytes()


def test_the_details_of_a_hit_can_be_read(cache: Any) -> None:
    first, second = graphc.compile(layer()), graphc.compile(layer())
    assert str(second.plan) == str(first.plan) and second.optimised == first.optimised
    assert repr(second) == repr(first) and second.schedule == first.schedule


def test_a_failing_check_of_a_hit_raises_the_same(cache: Any) -> None:
    from graphc.ops.indexing import take

    g = graphc.GraphBuilder("rows")
    graph = g.finish(take(g.input("x", "f32[3,2]"), g.input("i", "i64[2]"), axis=0))
    x, bad = np.ones((3, 2), np.float32), np.array([0, 7])
    messages = []
    for _ in range(2):
        with pytest.raises(graphc.GraphError) as raised:
            graphc.compile(graph)(x, bad)
        messages.append(str(raised.value).split("\n  at:")[0])
    assert messages[0] == messages[1] and "7" in messages[0]


def test_what_the_outcome_depends_on_is_in_the_name() -> None:
    keys = {
        program_key(layer(), named("x86-64-v3"), "exact", 1),
        program_key(layer(), named("x86-64-v3"), "none", 1),
        program_key(layer(), named("x86-64-v3"), "exact", 2),
        program_key(layer(3.0), named("x86-64-v3"), "exact", 1),
    }
    assert len(keys) == 4


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "garbage"])
def test_a_damaged_file_is_made_again(cache: Any, damage: str) -> None:
    want = graphc.compile(layer())(*arrays())[0]
    (path,) = programs(cache)
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes({
        "cut": data[:-10],
        "changed": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "empty": b"",
        "garbage": b"not an object",
    }[damage])  # fmt: skip
    again = graphc.compile(layer())
    assert "plan" in again.timings
    assert again(*arrays())[0].tobytes() == want.tobytes()
    assert list(graphc.compile(layer()).timings) == ["load"]


def test_a_recorder_sees_all_passes(cache: Any) -> None:
    graphc.compile(layer())
    recorder = Recorder()
    executable = graphc.compile(layer(), recorder=recorder)
    assert recorder.passes and recorder.plan.graph is executable.plan.graph


HAS_COMPILER = "print('graphc.codegen.kernels' in sys.modules, 'networkx' in sys.modules)\n"


def check_second_run_without_compiler(
    script: str, networkx: tuple[bool, bool] = (False, False)
) -> None:
    """The script prints its results, then whether the compiler and networkx are there: the first
    process, which compiles, has the compiler; the second gives the same results without."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout.split("\n")
        for _ in range(2)
    ]
    assert runs[0][0] == runs[1][0]
    assert runs[0][1] == f"True {networkx[0]}" and runs[1][1] == f"False {networkx[1]}"


def test_a_hit_imports_no_compiler(cache: Any) -> None:
    script = (
        "import sys, numpy as np, frontend as torch\n"
        "f = torch.compile(lambda x: torch.tanh(x) * 2)\n"
        "with torch.no_grad(): print(f(torch.ones(3)).tolist())\n" + HAS_COMPILER
    )
    check_second_run_without_compiler(script)


@pytest.mark.slow
def test_a_model_with_gradients_imports_no_compiler_either(cache: Any) -> None:
    script = (
        "import sys, frontend as torch\n"
        "from frontend import nn\n"
        "torch.manual_seed(0)\n"
        "m = nn.Linear(3, 2)\n"
        "y = torch.compile(m)(torch.ones(4, 3)).sum()\n"
        "y.backward()\n"
        "f = torch.compile(torch.freeze(nn.Linear(3, 2).eval()))\n"
        "print(m.weight.grad.tolist(), y.item(), f(torch.ones(1, 3)).tolist())\n" + HAS_COMPILER
    )
    check_second_run_without_compiler(script, networkx=(True, False))


@pytest.mark.slow
def test_a_training_step_of_layers_compiles_without_networkx(cache: Any) -> None:
    script = (
        "import sys, frontend as torch\n"
        "from frontend import nn\n"
        "torch.manual_seed(0)\n"
        "m = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))\n"
        "opt = torch.optim.SGD(m.parameters(), lr=0.1)\n"
        "@torch.compile\n"
        "def step(x):\n"
        "    opt.zero_grad()\n"
        "    loss = m(x).sum()\n"
        "    loss.backward()\n"
        "    opt.step()\n"
        "    return loss\n"
        "print(step(torch.ones(5, 3)).item(), m[0].weight.tolist())\n" + HAS_COMPILER
    )
    check_second_run_without_compiler(script)


@pytest.mark.slow
def test_a_recurrent_training_step_imports_no_compiler_either(cache: Any) -> None:
    script = (
        "import sys, frontend as torch\n"
        "torch.manual_seed(0)\n"
        "m = torch.nn.LSTM(3, 4)\n"
        "opt = torch.optim.SGD(m.parameters(), lr=0.1)\n"
        "@torch.compile\n"
        "def step(x):\n"
        "    opt.zero_grad()\n"
        "    loss = m(x)[0].sum()\n"
        "    loss.backward()\n"
        "    opt.step()\n"
        "    return loss\n"
        "print(step(torch.ones(5, 2, 3)).item(), m.weight_hh_l0.tolist())\n" + HAS_COMPILER
    )
    # What a step of the loop keeps for backward is decided, by a minimum cut, while it is traced.
    check_second_run_without_compiler(script, networkx=(True, True))

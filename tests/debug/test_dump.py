"""`graphc dump`: every stage of a graph from a file, other targets, and what bad input says."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from graphc.debug import load
from graphc.debug.cli import main
from graphc.debug.dump import STAGES, DumpOptions, dump
from graphc.errors import GraphError, VerifyError
from graphc.ir.builder import GraphBuilder
from graphc.ir.nodes import Graph
from graphc.ir.parser import parse
from graphc.ir.types import TensorType
from graphc.ops.elementwise import relu, tanh

MODEL = """
import graphc
from graphc.ops.elementwise import relu, tanh
from graphc.ops.reduce import sum
import helper

g = graphc.GraphBuilder("layer")
x, w, b = g.input("x", "f32[8,12]"), g.input("w", "f32[12,5]"), g.input("b", "f32[5]")
layer = g.finish(relu(x @ w + b))

g = graphc.GraphBuilder("loss")
x = g.input("x", "f32[6]")
loss = g.finish(sum(tanh(x * 1.0) * helper.FACTOR, axes=(0,)))

number = 3
print("imported")


class Net:
    layer = layer


net = Net()


def double(x):
    return x * 2.0


def broken(x):
    return x @ x


def crash(x):
    raise KeyError("no such layer")
"""


SERIAL = """
import graphc
from graphc.ops.nn.boxes import kept_boxes

g = graphc.GraphBuilder("kept")
kept = g.finish(kept_boxes(*(g.input(f"x{i}", "f32[6]") for i in range(4)), threshold=0.5))
"""
LARGE = """
import graphc
from graphc.ops.reduce import sum

g = graphc.GraphBuilder("large")
large = g.finish(sum(g.input("x", "f32[256,256]") @ g.input("w", "f32[256,256]"), axes=(0, 1)))
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with model.py and a module it imports."""
    (tmp_path / "model.py").write_text(MODEL, "utf-8")
    (tmp_path / "helper.py").write_text("FACTOR = 2.0\n", "utf-8")
    monkeypatch.delitem(sys.modules, "helper", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def no_tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "entry_points", lambda group: ())


@pytest.fixture
def tracer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package whose tracer knows functions of handles."""
    folder = tmp_path / "site"
    (folder / "toy-1.0.dist-info").mkdir(parents=True)
    (folder / "toy-1.0.dist-info" / "METADATA").write_text("Name: toy\nVersion: 1.0\n", "utf-8")
    (folder / "toy-1.0.dist-info" / "entry_points.txt").write_text(
        "[graphc.tracers]\ntoy = toy_tracer:trace\n", "utf-8"
    )
    (folder / "toy_tracer.py").write_text(
        "from types import FunctionType\n"
        "import graphc\n"
        "def trace(found, types):\n"
        "    if not isinstance(found, FunctionType):\n"
        "        return None\n"
        "    g = graphc.GraphBuilder(found.__name__)\n"
        "    inputs = [g.input(f'x{i}', type) for i, type in enumerate(types)]\n"
        "    return g.finish(found(*inputs))\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "toy_tracer", raising=False)


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(["dump", *arguments])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def message(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a run that fails says: on standard error, with exit code 2, and no traceback."""
    code = main(["dump", *arguments])
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert "Traceback" not in captured.err
    return captured.err


# -- stages ----------------------------------------------------------------------------------------


def test_the_graph_reads_back_and_names_the_line(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = output(capsys, "model.py:layer")
    assert parse(text) == load.load_graph("model.py:layer", [])
    assert "%3 = matmul(%x, %w) : f32[8,5]  // model.py:9 in <module>" in text


def test_without_locations_no_stage_names_a_line(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for stage in ("graph", "optimized", "joint", "plan"):
        assert "// model.py" not in output(
            capsys, "model.py:layer", "--stage", stage, "--no-locations"
        )


def test_the_optimized_graph_is_that_of_the_level(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exact = output(capsys, "model.py:loss", "--stage", "optimized")
    none = output(capsys, "model.py:loss", "--stage", "optimized", "--level", "none")
    assert exact.count("mul(") == 1 and none.count("mul(") == 2
    assert parse(exact) != parse(none)


def test_the_joint_graph_has_the_gradients(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loss = parse(output(capsys, "model.py:loss", "--stage", "joint"))
    assert [str(type) for type in loss.output_types] == ["f32[]", "f32[6]"]
    layer = parse(output(capsys, "model.py:layer", "--stage", "joint"))
    assert layer.input_names == ("x", "w", "b", "cotangent_0")
    assert [str(type) for type in layer.output_types] == [
        "f32[8,5]", "f32[8,12]", "f32[12,5]", "f32[5]",
    ]  # fmt: skip


def test_the_plan_has_one_kernel_or_one_for_each_op(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fused = output(capsys, "model.py:layer", "--stage", "plan")
    assert "  kernel k0_matmul (contract) graph kernel(" in fused and "k1_" not in fused
    assert "  b3 = k0_matmul(b0, b1, b2)  // model.py:9 in <module>\n" in fused
    assert "// kernel" not in fused
    apart = output(capsys, "model.py:layer", "--stage", "plan", "--level", "none")
    assert {f"k{i}_{op}" for i, op in enumerate(("matmul", "broadcast", "add", "relu"))} <= {
        word.partition("(")[0] for word in apart.split()
    }


def test_the_plan_tells_how_steps_are_split_over_threads(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (model / "large.py").write_text(LARGE, "utf-8")
    plan = ("large.py:large", "--stage", "plan")
    alone, shown = output(capsys, *plan), output(capsys, *plan, "--threads", "2")
    assert shown.startswith(alone)
    head, *steps = shown.removeprefix(alone).splitlines()
    assert head.startswith("threads 2: saves about ") and head.endswith("1 barriers")
    assert [line.partition(": about ")[0] for line in steps] == [
        "  k0_matmul: threads 2", "  k1_sum: barrier, threads 1",
    ]  # fmt: skip
    small = output(capsys, "model.py:layer", "--stage", "plan", "--threads", "2")
    assert "\nthreads 1: no step is worth a split\n" in small


def test_less_than_one_thread_is_an_error(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "model.py:layer", "--stage", "plan", "--threads", "0"]) == 2
    assert "0 threads" in capsys.readouterr().err


def test_loops_of_one_kernel(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("model.py:layer", "--stage", "loops", "--target", "x86-64-v3", "--level", "none")
    text = output(capsys, *arguments)
    assert text.count("\nkernel ") == 3 and text.startswith("kernel k0_matmul(")
    for name in ("k3_relu", "k3"):
        one = output(capsys, *arguments, "--kernel", name)
        assert one.startswith("kernel k3_relu(") and one.count("kernel ") == 1
        assert "f32x8 = maximum" in one and one in text


def test_nests_of_kernels(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("model.py:layer", "--stage", "nests", "--target", "x86-64-v3", "--level", "none")
    text = output(capsys, *arguments)
    assert text.startswith("nest k0_matmul over batch 1, ") and "\n  for columns" in text
    assert "nest k3_relu over elements 40 {" in text and "\n  output y0 along i0\n" in text
    one = output(capsys, *arguments, "--kernel", "k0")
    assert one in text and one.count("nest k") == 1


def test_a_kernel_without_a_nest_says_so(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (model / "serial.py").write_text(SERIAL, "utf-8")
    text = output(capsys, "serial.py:kept", "--stage", "nests")
    assert "// k0_kept_boxes: recipe serial writes its loops without a nest\n" in text


def test_llvm_ir_of_each_kernel(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "model.py:layer", "--stage", "llvm", "--target", "x86-64-v3")
    assert "define void @k0_matmul(" in text and "@llvm.fma.v8f32" in text


@pytest.mark.parametrize(
    ("target", "instruction", "register"),
    [("aarch64", "fmla", "v0.4s"), ("x86-64-v3", "vfmadd", "%ymm"), ("x86-64-v4", "vfmadd", "%k1")],
)
def test_assembly_for_any_target(
    model: Path,
    capsys: pytest.CaptureFixture[str],
    target: str,
    instruction: str,
    register: str,
) -> None:
    text = output(capsys, "model.py:layer", "--stage", "asm", "--target", target)
    assert "k0_matmul:" in text and instruction in text and register in text


def test_every_stage_runs_for_the_host(model: Path) -> None:
    graph = load.load_graph("model.py:loss", [])
    for stage in STAGES:
        assert "".join(dump(graph, stage)).strip()


# -- what is named ---------------------------------------------------------------------------------


def test_a_name_may_have_dots_and_prints_go_to_standard_error(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dump", "model.py:net.layer"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("graph layer(") and captured.err == "imported\n"


def test_the_types_of_a_graph_may_be_given(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output(capsys, "model.py:loss", "--input", "f32[6]")
    wrong = message(capsys, "model.py:loss", "--input", "f32[7]")
    assert "takes 1 input (f32[6]), not 1 input (f32[7])" in wrong


def test_loading_leaves_the_interpreter_as_it_was(model: Path) -> None:
    paths, modules = list(sys.path), dict(sys.modules)
    (model / "json.py").write_text(MODEL, "utf-8")
    load.load_graph(str(model / "json.py") + ":layer", [])
    assert sys.path == paths and sys.modules["json"] is modules.get("json", sys.modules["json"])
    assert "model" not in sys.modules


@pytest.mark.usefixtures("tracer")
def test_a_function_goes_to_the_tracer(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "model.py:double", "--input", "f32[4]")
    builder = GraphBuilder("double")
    assert parse(text) == builder.finish(builder.input("x0", "f32[4]") * 2.0)
    assert "// model.py:" in text


@pytest.mark.usefixtures("tracer")
def test_nodes_that_no_line_of_the_file_made_have_no_line(model: Path) -> None:
    (model / "bare.py").write_text("from operator import neg\nflip = lambda x: neg(x)\n", "utf-8")
    (model / "toy.py").write_text(
        "import sys, graphc.debug.cli as c\nsys.exit(c.main())\n", "utf-8"
    )
    (model / "site" / "toy_tracer.py").write_text(
        "import graphc\n"
        "def trace(found, types):\n"
        "    g = graphc.GraphBuilder('flip')\n"
        "    exec(compile('y = -x', 'graphc', 'exec'), globals := {'x': g.input('x', types[0]),\n"
        "         '__name__': 'graphc'})\n"
        "    return g.finish(globals['y'])\n",
        "utf-8",
    )
    command = [sys.executable, "toy.py", "dump", "bare.py:flip", "--input", "f32[2]"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=model, env=environment, capture_output=True, text=True)
    assert "= neg(%x)" in done.stdout and "toy.py" not in done.stdout, done.stdout + done.stderr


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("model", "no_tracer")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["model.py"], "write FILE.py:NAME"),
        (["nowhere.py:layer"], "there is no file nowhere.py"),
        (["model.py:laier"], "one of layer"),
        (["model.py:number"], "number is a int, no Graph, and no tracer is installed"),
        (["model.py:double", "--input", "f32[4]"], "install the package that has a tracer"),
        (["model.py:layer", "--input", "f32(4)"], "'f32(4)' is not a tensor type"),
        (["model.py:layer", "--input", "f31[4]"], "'f31[4]' is not a tensor type"),
        (["model.py:layer", "--input", "f32[8,12]"], "takes 3 inputs"),
        (["model.py:layer", "--stage", "soup"], "invalid choice: 'soup'"),
        (["model.py:layer", "--level", "turbo"], "invalid choice: 'turbo'"),
        (["model.py:layer", "--stage", "asm", "--target", "vax"], "'vax' is no known target"),
        (["model.py:layer", "--stage", "asm", "--kernel", "k7"], "one of k0_matmul"),
        (["model.py:layer", "--stage", "plan", "--kernel", "k0"], "not shown by kernel"),
    ],
)
def test_bad_arguments(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in message(capsys, *arguments)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\nimport no_such_module\n", ["bad.py", "line 2", "ModuleNotFoundError"]),
        ("def f():\n    return 1 / 0\nf()\n", ["line 2, in f", "return 1 / 0", "ZeroDivision"]),
        ("x = = 1\n", ["line 1", "SyntaxError: invalid syntax"]),
        ("raise SystemExit(3)\n", ["line 1", "SystemExit: 3"]),
        (
            "import graphc\ng = graphc.GraphBuilder()\nx = g.input('x', 'f32[2,3]')\nx @ x\n",
            ["line 4", "matmul of f32[2,3] and f32[2,3]: shapes cannot be multiplied"],
        ),
    ],
)
def test_errors_of_the_file_show_its_line(
    source: str, said: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.py").write_text(source, "utf-8")
    text = message(capsys, f"{tmp_path / 'bad.py'}:x")
    assert "bad.py could not be imported" in text
    assert all(part in text for part in said), text


def test_a_file_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.py").write_bytes(b"\x00\xff\x00")
    assert "bad.py" in message(capsys, f"{tmp_path / 'bad.py'}:x")


@pytest.mark.usefixtures("model", "tracer")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["model.py:double"], "does not take 0 inputs: missing a required argument: 'x'"),
        (["model.py:double", "--input", "f32[4]", "--input", "f32[4]"], "too many positional"),
        (["model.py:broken", "--input", "f32[2,3]"], "shapes cannot be multiplied"),
        (["model.py:crash", "--input", "f32[2]"], "KeyError: 'no such layer'"),
        (["model.py:number"], "number is a int, which is neither a Graph nor callable"),
        (["model.py:Net"], "no tracer knows Net, a type (asked: "),
    ],
)
def test_what_cannot_be_traced(
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = [entry for entry in entry_points(group=load.TRACERS) if entry.name == "toy"]
    monkeypatch.setattr(load, "entry_points", lambda group: own)
    assert said in message(capsys, *arguments)


def test_a_tracer_that_does_not_load(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = EntryPoint("gone", "no_such_module:trace", load.TRACERS)
    monkeypatch.setattr(load, "entry_points", lambda group: (entry,))
    text = message(capsys, "model.py:double", "--input", "f32[4]")
    assert "tracer gone (no_such_module:trace) does not load" in text


def test_unknown_stages_and_broken_graphs_of_the_function() -> None:
    builder = GraphBuilder("g")
    x = builder.input("x", "f32[2]")
    graph = builder.finish(tanh(relu(x)))
    with pytest.raises(GraphError, match="unknown stage 'soup'"):
        list(dump(graph, "soup"))
    broken = Graph("g", (*graph.nodes[:2], graph.nodes[1]), graph.outputs, ((5, 5),))
    with pytest.raises(VerifyError, match="rule G"):
        list(dump(broken, "graph", DumpOptions()))


def test_no_command_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "COMMAND" in capsys.readouterr().err
    assert main(["--help"]) == 0


def test_a_reader_that_stops_early_is_no_error(model: Path) -> None:
    command = [sys.executable, "-m", "graphc", "dump", "model.py:layer", "--stage", "plan"]
    with subprocess.Popen(
        command, cwd=model, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, "imported\n")


def test_types_are_handed_to_the_tracer_as_a_list(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[TensorType]] = []

    class Entry:
        name = value = "spy"

        def load(self) -> object:
            return lambda obj, types: seen.append(types)

    monkeypatch.setattr(load, "entry_points", lambda group: (Entry(),))
    types = [TensorType.parse("f32[4]")]
    with pytest.raises(GraphError, match="no tracer knows double"):
        load.load_graph("model.py:double", types)
    assert seen == [types]

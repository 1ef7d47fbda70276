"""The commands on files: run, grad, opt, reduce; programs with arguments and aliases; what bad
input says; what a terminal is shown."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.debug import terminal
from graphc.debug.cli import main
from graphc.debug.dump_files import write_dump
from graphc.debug.files import write_file
from graphc.debug.terminal import Terminal, by_verdict
from graphc.errors import ArgumentError
from graphc.ir.parser import parse
from graphc.ops.elementwise import relu, tanh
from graphc.ops.reduce import sum

PROGRAM = """
import sys
import torch

WIDTH = int(sys.argv[1]) if len(sys.argv) > 1 else 3
layer = torch.nn.Linear(WIDTH, 2)

def step(x):
    return layer(x).relu()
"""


def layer() -> graphc.Graph:
    g = graphc.GraphBuilder("layer")
    x, w, b = g.input("x", "f32[4,6]"), g.input("w", "f32[6,5]"), g.input("b", "f32[5]")
    return g.finish(relu(x @ w + b))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "layer.graph").write_text(str(layer()), "utf-8")
    (tmp_path / "train.py").write_text(PROGRAM, "utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command that cannot be done says: one line, and exit code 2."""
    code = main(list(arguments))
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert len(captured.err.splitlines()) == 1, captured.err
    return captured.err


# -- graphs in files -------------------------------------------------------------------------------


@pytest.mark.usefixtures("files")
def test_every_command_takes_the_text_of_a_graph(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(said(capsys, "dump", "layer.graph")) == layer()
    assert "holds" in said(capsys, "verify", "layer.graph", "--threads", "1")
    assert "fused" in said(capsys, "ledger", "layer.graph")
    assert said(capsys, "diff", "layer.graph", "layer.graph").startswith("compiled alike")


def test_a_graph_runs_on_drawn_and_on_stored_arrays(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = said(capsys, "run", "layer.graph", "--save", "out.npz")
    assert drawn.startswith("layer: 1 outputs\noutput 0: f32[4,5], from 0.0 to ")
    rng = np.random.default_rng(1)
    arrays = {n: rng.standard_normal(t.shape).astype("f4") for n, t in named_types()}
    np.savez(files / "in.npz", **arrays)
    said(capsys, "run", "layer.graph", "--arrays", "in.npz", "--save", "out.npz", "--numpy")
    expected = np.maximum(arrays["x"] @ arrays["w"] + arrays["b"], 0)
    np.testing.assert_allclose(np.load("out.npz")["output_0"], expected, rtol=1e-5)
    native = said(capsys, "run", "layer.graph", "--arrays", "in.npz", "--save", "out.npz")
    np.testing.assert_allclose(np.load("out.npz")["output_0"], expected, rtol=1e-5)
    assert "outputs in out.npz" in native


def named_types() -> list[tuple[str, graphc.TensorType]]:
    return list(zip(layer().input_names, layer().input_types, strict=True))


def test_the_inputs_of_a_dump_are_taken(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = [np.full(t.shape, 0.5, np.float32) for _, t in named_types()]
    folder = write_dump(files / "dumps", graphc.compile(layer()), "exact", arrays=arrays)
    said(
        capsys, "run", str(folder / "00_graph.graph"), "--arrays", str(folder / "inputs.npz"),
        "--save", "out.npz",
    )  # fmt: skip
    assert np.load("out.npz")["output_0"][0, 0] == 2.0


@pytest.mark.usefixtures("files")
def test_gradients_and_passes_are_graphs_again(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "grad", "layer.graph", "--wrt", "w")
    assert parse(text) == graphc.joint(layer(), wrt=["w"])
    said(capsys, "grad", "layer.graph", "-o", "joint.graph")
    assert parse(said(capsys, "opt", "joint.graph", "--level", "none")).output_types[0].rank == 2
    cleaned = said(capsys, "opt", "joint.graph", "--pass", "dead_code", "--pass", "canonicalize")
    assert len(parse(cleaned).nodes) < len(parse(Path("joint.graph").read_text("utf-8")).nodes)


def test_reduce_keeps_what_the_check_is_about(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    g = graphc.GraphBuilder("big")
    x, w = g.input("x", "f32[4,6]"), g.input("w", "f32[6,5]")
    y = tanh(x @ w)
    big = g.finish(sum(relu(y * 2.0), axes=(0, 1)), y + 1.0)
    (files / "big.graph").write_text(str(big), "utf-8")
    check = f"{sys.executable} -c \"import sys; sys.exit(3 * (' tanh(' in open('{{}}').read()))\""
    said_ = said(capsys, "reduce", "big.graph", "--check", check, "-o", "small.graph")
    small = parse((files / "small.graph").read_text("utf-8"))
    assert [node.op for node in small.nodes if node.op not in ("input", "constant")] == ["tanh"]
    assert small.output_types[0].numel == 1 and "graph in small.graph" in said_


# -- programs --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("files")
def test_a_program_that_imports_torch_gets_its_own_arguments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before, paths = list(sys.argv), list(sys.path)
    torch = sys.modules.pop("torch", None)
    try:
        one = said(capsys, "dump", "train.py:step", "--as", "torch", "--input", "f32[5,3]")
        more = said(
            capsys, "dump", "train.py:step", "--as", "torch", "--input", "f32[5,7]", "--", "7"
        )
    finally:
        if torch is not None:
            sys.modules["torch"] = torch
    assert "weight: f32[2,3]" in one and "weight: f32[2,7]" in more
    assert "// train.py:9 in step [layer]" in more
    assert (sys.argv, sys.path) == (before, paths) and sys.modules.get("torch") is torch


def test_the_version_names_what_results_depend_on(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "--version")
    assert text.startswith(f"graphc {graphc.__version__}\nLLVM ") and "NumPy" in text


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "no.graph"], "no.graph cannot be read: No such file or directory"),
        (["run", "train.py"], "names no object of a file"),
        (["run", "layer.graph", "--input", "f32[2"], "is not a tensor type"),
        (["run", "layer.graph", "--input", "f32[2]"], "takes 3 inputs"),
        (["run", "layer.graph", "--threads", "0"], "--threads 0: 1 or more"),
        (["run", "layer.graph", "--as", "torch"], "it takes no --as and no arguments"),
        (["run", "layer.graph", "--", "x"], "it takes no --as and no arguments"),
        (["run", "layer.graph", "--arrays", "layer.graph"], "it is no .npz file of arrays"),
        (["run", "layer.graph", "--arrays", "gone.npz"], "gone.npz cannot be read: No such file"),
        (["run", "layer.graph", "--save", "no/out.npz"], "there is no folder no"),
        (["run", "layer.graph", "--save", "."], ". is a folder"),
        (["run", "train.py:step", "--as", "nothing"], "nothing stands in for 'nothing'"),
        (["grad", "layer.graph", "--wrt", "z"], "'z'"),
        (["opt", "layer.graph", "--pass", "fold"], "there is no pass 'fold'; try: one of"),
        (["opt", "layer.graph", "--target", "vax"], "'vax' is no known target"),
        (["opt", "layer.graph", "-o", "no/x.graph"], "there is no folder no"),
        (["profile", "layer.graph", "--seconds", "nan"], "--seconds nan: a positive number"),
        (["profile", "layer.graph", "--top", "-1"], "--top -1: 0 or more"),
        (["report", "layer.graph", "-o", "no/x.html"], "there is no folder no"),
        (["compare", "layer.graph", "--rounds", "0"], "0 rounds: at least 1"),
        (["compare", "layer.graph", "--json", "no/x.json"], "there is no folder no"),
        (["reduce", "layer.graph", "--check", "true"], "the check passes on the whole graph"),
        (["reduce", "layer.graph", "--check", "no_such_command"], "the check cannot be run"),
        (["reduce", "layer.graph", "--check", "'"], "No closing quotation"),
        (["reduce", "layer.graph", "--check", " "], "there is no command"),
        (["reduce", "layer.graph", "--check", "false", "--timeout", "0"], "--timeout 0"),
        (["diff", "layer.graph", "gone.json"], "gone.json cannot be read"),
        (["cache", "ls", "--", "x"], "no program is named, so nothing may follow --"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, *arguments)


@pytest.mark.parametrize(
    "text", ["import torch\nraise ValueError", "import torch\ndef step(x): return torch.nothing"]
)
def test_a_missing_as_is_told(
    text: str, files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    (files / "own.py").write_text(text)
    assert main(["run", "own.py:step", "--input", "f32[2]"]) != 0
    told = capsys.readouterr().err
    assert told.endswith("try: --as torch: own.py imports torch itself, and so runs by that\n")
    (files / "own.py").write_text(text.replace("torch", "graphc as torch", 1))
    assert main(["run", "own.py:step", "--input", "f32[2]"]) != 0
    assert "--as" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph g(%x: f32[2]) { return %y }", "bad.graph: line 1, column 30: %y is not defined"),
        ("", "bad.graph: line 1, column 1"),
        ("graph g(%x: f32[2]) {\n %1 = nop(%x) : f32[2]\n return %1 }", "line 2"),
    ],
)
def test_a_text_that_is_no_graph_is_told_by_its_place(
    text: str, message: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "bad.graph").write_text(text, "utf-8")
    assert message in refused(capsys, "verify", "bad.graph")
    (files / "bad.graph").write_bytes(b"\xff\xfe")
    assert "bad.graph cannot be read" in refused(capsys, "verify", "bad.graph")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full")
def test_a_full_disk_is_one_line(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["run", "layer.graph", "--save"], ["grad", "layer.graph", "-o"]):
        assert "cannot write" in refused(capsys, *command, "/dev/full")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "graphc", "dump", "layer.graph"], stdout=full,
            stderr=subprocess.PIPE, text=True, timeout=120,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        2, f"graphc dump: cannot write: [Errno 28] {os.strerror(errno.ENOSPC)}\n",
    )  # fmt: skip


def test_a_file_that_cannot_be_replaced_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    write_file(path, "before", "it")

    def full(self: Path, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ArgumentError, match=r"cannot write it: .*No space left"):
        write_file(path, "after", "it")
    assert path.read_text("utf-8") == "before" and list(tmp_path.iterdir()) == [path]


def test_an_interrupt_ends_a_command(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("graphc.debug.commands.looking.dump", interrupted)
    assert main(["dump", "layer.graph"]) == 130


def test_a_cache_that_cannot_be_written_is_mentioned_once(files: Path) -> None:
    (files / "cache").write_text("a file", "utf-8")
    environment = {**os.environ, "GRAPHC_CACHE": str(files / "cache" / "x")}
    done = subprocess.run(
        [sys.executable, "-m", "graphc", "run", "layer.graph"], env=environment,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("compiled code is not taken from or kept in ")


# -- terminals -------------------------------------------------------------------------------------


def test_lines_are_cut_or_wrapped_at_the_width(capsys: pytest.CaptureFixture[str]) -> None:
    line = "  one two three four five six seven"
    Terminal(False, 20).show([line], cut=True)
    assert capsys.readouterr().out == "  one two three fou…\n"
    Terminal(False, 20).show([line])
    assert capsys.readouterr().out == "  one two three four\n      five six seven\n"
    Terminal(False, None).show([line], cut=True)
    assert capsys.readouterr().out == line + "\n"


def test_colours_are_those_of_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert Terminal.of_output() == Terminal(False, None)  # a pipe
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    assert Terminal.of_output() == Terminal(True, 60)
    monkeypatch.setenv("NO_COLOR", "1")
    assert Terminal.of_output() == Terminal(False, 60)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not Terminal.of_output().colour
    monkeypatch.setenv("FORCE_COLOR", "1")
    terminal.show(["ok    plan", "DIFF  call"], by_verdict)
    assert capsys.readouterr().out == "\x1b[32mok    plan\x1b[0m\n\x1b[31mDIFF  call\x1b[0m\n"


def test_open_sizes_are_those_of_the_inputs(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """graph g(%x: f32[n,3], %y: f32[n]) where 1 <= n {
      %2 = sum(%x) axes=[1] : f32[n]
      %3 = add(%2, %y) : f32[n]
      return %3
    }"""
    (files / "open.graph").write_text(text, "utf-8")
    assert "leaves sizes open: n; try: give --input" in refused(capsys, "run", "open.graph")
    sizes = ("--input", "f32[4,3]", "--input", "f32[4]")
    assert "output 0: f32[4]" in said(capsys, "run", "open.graph", *sizes)
    wrong = ("--input", "f32[4,3]", "--input", "f32[5]")
    assert "takes 2 inputs (f32[4,3], f32[4])" in refused(capsys, "run", "open.graph", *wrong)

"""`graphc build`: functions, Modules and graphs of files, with sizes that stay open."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from graphc.debug.cli import main
from graphc.debug.traced import DrawnInput
from graphc.errors import ParseError
from graphc.ir.builder import GraphBuilder
from graphc.ir.dims import dim
from graphc.ir.types import DType, TensorType
from graphc.ops.elementwise import relu

PROGRAM = """
import torch
import torch.nn.functional as F

torch.manual_seed(0)
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(x, y):
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


opened = torch.compile(step, dynamic={"x": {0: "rows"}, "y": {0: "rows"}})
"""
INPUTS = ("--input", "f32[batch=4,4]", "--input", "i64[batch=4]<3")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(PROGRAM, "utf-8")
    g = GraphBuilder("layer")
    x = g.input("x", TensorType(DType.f32, (dim("n"), 3)))
    (tmp_path / "layer.graph").write_text(str(g.finish(relu(x))), "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def build(*arguments: str) -> int:
    return main(["build", *arguments, "-o", "out"])


def declared(name: str) -> str:
    """The declaration of the function in its header, on one line."""
    text = Path("out", f"{name}.h").read_text()
    match = re.search(rf"int64_t {name}\(([^;]*)\);", text)
    assert match is not None
    return " ".join(match[1].split())


def test_a_step_with_an_open_batch(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build("train.py:step", "--as", "torch", *INPUTS) == 0
    assert sorted(os.listdir("out")) == [
        "main.c", "main.data", "step.h", "step.o", "step.safetensors",
    ]  # fmt: skip
    assert declared("step") == (
        "step_state *state, int64_t batch, const float *x /* [batch][4] */, "
        "const int64_t *y /* [batch] */, float *result /* one */, void *work"
    )
    header = Path("out", "step.h").read_text()
    assert "float model_weight[3][4];" in header or "float weight[3][4];" in header
    assert "double lr;" in header and "grad" not in header
    assert "step.o" in capsys.readouterr().out


def test_a_compiled_function_says_itself_what_is_open(files: Path) -> None:
    plain = ("--input", "f32[4,4]", "--input", "i64[4]<3")
    assert build("train.py:opened", "--as", "torch", *plain, "--name", "train") == 0
    assert "int64_t rows" in declared("train")
    assert build("train.py:step", "--as", "torch", *plain, "--keep-grads") == 0
    assert "int64_t rows" not in declared("step")
    assert "weight_grad" in Path("out", "step.h").read_text()


def test_a_module_and_a_graph(files: Path) -> None:
    assert build("train.py:model", "--as", "torch", "--input", "f32[n=5,4]") == 0
    assert "const model_state *state, int64_t n" in declared("model")
    assert build("layer.graph") == 0
    assert "int64_t n, const float *x /* [n][3] */" in declared("layer")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train.py:step", "--as", "torch", *INPUTS, "--kind", "ship"), "is not built yet"),
        (
            ("train.py:step", "--as", "torch", *INPUTS, "--kind", "page", "--data", "optimizer"),
            "gave no data",
        ),
        (("train.py:step", "--as", "torch", *INPUTS, "--target", "z80"), "is no known target"),
        (("train.py:step", "--as", "torch", *INPUTS, "--threads", "0"), "threads are from 1"),
        (("train.py:step", "--as", "torch", *INPUTS, "--name", "a b"), "no name of a C function"),
        (("train.py:nothing", "--as", "torch", *INPUTS), "nothing"),
        (("train.py:step", "--as", "torch", "--input", "f32[n=,4]"), "is not a tensor type"),
        (("layer.graph", "--input", "f32[4,3]"), "leave out --input"),
    ],
)
def test_what_cannot_be_is_said_in_one_line_and_nothing_is_written(
    files: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert build(*arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("graphc build: ") and message in said
    assert not Path("out").exists()


def test_names_of_sizes_in_the_text_of_an_input() -> None:
    opened = DrawnInput.parse("i64[batch=32, 8, time = 5]<10")
    assert opened.names == {0: "batch", 2: "time"}
    assert opened.type == TensorType(DType.i64, (32, 8, 5)) and opened.below == 10
    assert DrawnInput.parse("f32[]").names == {}
    with pytest.raises(ParseError, match="is not a tensor type"):
        DrawnInput.parse("f32[batch]")

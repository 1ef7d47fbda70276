"""`torch.export`: the graph of a Module, its signature, files, and the Module that runs it."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.export import Dim, ExportError
from graphc.errors import ArgumentError, ShapeError, TraceError

torch.manual_seed(0)


class Net(nn.Module):
    """A parameter, a buffer, a constant from elsewhere, a dict among the results."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.register_buffer("level", torch.ones(3))
        self.kept = [torch.full((3,), 2.0)]

    def forward(self, x: Any, *, scale: float = 1.0) -> Any:
        y = self.inner(x) * self.level + self.kept[0]
        return {"y": y * scale, "n": y.sum(0)}


def exported(model: Any = None, **options: Any) -> Any:
    model = model or Net()
    example = (torch.randn(1, 4),)
    return model, torch.export.export(model, example, dynamic_shapes={"x": {0: "batch"}}, **options)


def test_the_signature_says_what_each_input_is() -> None:
    model, program = exported(kwargs={"scale": 0.5})
    signature = program.graph_signature
    assert signature.parameters == ("inner.weight", "inner.bias")
    assert signature.buffers == ("level",) and signature.user_inputs == ("x",)
    assert len(signature.lifted_tensor_constants) == 1 and len(program.constants) == 1
    assert len(signature.user_outputs) == 2 and not signature.buffers_to_mutate
    assert program.state_dict.keys() == model.state_dict().keys()
    assert str(program.graph.input_types[0]) == "f32[batch,4]"
    assert [name for name, _ in program.named_parameters()] == ["inner.weight", "inner.bias"]
    assert program.range_constraints["batch"].lower == 0
    with pytest.raises(RuntimeError, match=r"module\(\)"):
        program(torch.randn(1, 4))


def test_its_module_computes_and_learns_as_the_model_does() -> None:
    model, program = exported()
    module = program.module()
    assert module.state_dict().keys() >= model.state_dict().keys()
    for size in (1, 2, 5):
        x = torch.randn(size, 4)
        mine, theirs = module(x), model(x)
        for name in ("y", "n"):
            np.testing.assert_array_equal(mine[name].detach(), theirs[name].detach())
    for each in (model, module):
        each(x)["y"].square().sum().backward()
    for name, parameter in model.named_parameters():
        gradient = module.get_parameter(name).grad
        np.testing.assert_array_equal(gradient, parameter.grad)
    # Its tensors are its own.
    with torch.no_grad():
        module.get_parameter("inner.weight").zero_()
    assert float(model.inner.weight.abs().sum()) > 0


def test_it_is_compiled_with_its_sizes_open() -> None:
    model, program = exported()
    compiled = torch.compile(program.module())
    with torch.no_grad():
        for size in (3, 7, 4):
            x = torch.randn(size, 4)
            np.testing.assert_array_equal(compiled(x)["y"], model(x)["y"])
    assert compiled.explain().count("traced ") == 1


def test_buffers_that_change_are_outputs() -> None:
    model = nn.BatchNorm1d(3)
    program = torch.export.export(model, (torch.randn(4, 3),), dynamic_shapes=({0: Dim.AUTO},))
    changed = set(program.graph_signature.buffers_to_mutate.values())
    assert changed == {"running_mean", "running_var", "num_batches_tracked"}
    module, x = program.module(), torch.randn(6, 3)
    np.testing.assert_array_equal(module(x).detach(), model(x).detach())
    np.testing.assert_array_equal(module.get_buffer("running_var"), model.running_var)


def test_a_recurrent_layer_keeps_its_loop() -> None:
    model = nn.LSTM(3, 4, batch_first=True)
    program = torch.export.export(model, (torch.randn(2, 5, 3),), dynamic_shapes=({0: "batch"},))
    assert any(node.op == "scan" for node in program.graph.nodes)
    x = torch.randn(3, 5, 3)
    for got, want in zip((program.module()(x)[0],), (model(x)[0],)):
        np.testing.assert_array_equal(got.detach(), want.detach())


def test_a_file_holds_all_of_it(tmp_path: Path) -> None:
    model, program = exported(kwargs={"scale": 0.5})
    torch.export.save(program, tmp_path / "net.pt2")
    other = torch.export.load(tmp_path / "net.pt2")
    assert other.graph == program.graph
    assert other.graph_signature == program.graph_signature
    assert other.range_constraints == program.range_constraints
    x = torch.randn(3, 4)
    want = model(x, scale=0.5)["y"].detach()
    np.testing.assert_array_equal(other.module()(x, scale=0.5)["y"].detach(), want)
    with pytest.raises(ArgumentError, match="numbers are part of what was exported"):
        other.module()(x, scale=0.25)


def test_a_file_that_is_none_is_an_error(tmp_path: Path) -> None:
    content = io.BytesIO()
    torch.export.save(exported()[1], content)
    whole = content.getvalue()
    for cut in range(0, len(whole) - 1, 211):
        with pytest.raises(ExportError, match="no exported program"):
            torch.export.load(io.BytesIO(whole[:cut]))
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            text = old.read(name)
            new.writestr(name, text.replace(b"addmm(", b"matmul(") if "graph" in name else text)
    changed.seek(0)
    with pytest.raises(ExportError, match="no exported program"):
        torch.export.load(changed)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        torch.export.load(tmp_path / "nowhere.pt2")


def test_arguments_of_a_module_are_called_as_they_were() -> None:
    class Joined(nn.Module):
        def forward(self, pair: Any, z: Any) -> Any:
            return pair[0] + pair[1]["b"] * z

    example = ((torch.randn(3), {"b": torch.randn(3)}), torch.randn(3))
    shapes = (({0: "n"}, {"b": {0: "n"}}), {0: "n"})
    program = torch.export.export(Joined(), example, dynamic_shapes=shapes)
    module = program.module()
    assert module.argument_names == ("pair", "z")
    assert module.open_sizes.keys() == {"pair_0", "pair_1_b", "z"}
    compiled = torch.compile(module)
    for n in (3, 5):
        values = ((torch.randn(n), {"b": torch.randn(n)}), torch.randn(n))
        np.testing.assert_array_equal(compiled(*values), Joined()(*values))
    assert ": 1 program, " in str(compiled.explain())


def test_sizes_and_bounds_are_held() -> None:
    batch = Dim("batch", min=2, max=8)
    program = torch.export.export(Net(), (torch.randn(3, 4),), dynamic_shapes=({0: batch},))
    module = program.module()
    assert module(torch.randn(8, 4))["y"].shape == (8, 3)
    with pytest.raises(ShapeError, match="size batch is 9"):
        module(torch.randn(9, 4))
    with pytest.raises(ShapeError, match="axis 1 was exported as 4"):
        module(torch.randn(3, 5))
    closed = torch.export.export(Net(), (torch.randn(3, 4),)).module()
    with pytest.raises(ShapeError, match="axis 0 was exported as 3"):
        closed(torch.randn(4, 4))


class Odd(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.reshape(3, -1) if x.shape[0] == 3 else x


def test_what_cannot_be_exported_says_why() -> None:
    with pytest.raises(ShapeError, match="the size is no open one"):
        torch.export.export(Odd(), (torch.randn(3, 4),), dynamic_shapes=({0: "batch"},))

    class Branch(nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    with pytest.raises(TraceError, match="value of a tensor"):
        torch.export.export(Branch(), (torch.randn(3),))
    with pytest.raises(ValueError, match=r"torch\.nn\.Module"):
        torch.export.export(lambda x: x, (torch.randn(3),))
    with pytest.raises(ValueError, match="dynamic_shapes of z"):
        torch.export.export(Net(), (torch.randn(3, 4),), dynamic_shapes={"z": {0: "batch"}})
    with pytest.raises(NotImplementedError, match="dynamic_shapes"):
        torch.export.draft_export(Net(), ())

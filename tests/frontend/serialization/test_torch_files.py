"""PyTorch's zip files: tensors come along, anything else is refused before it runs.

The files are built here byte by byte, so no torch is needed.
"""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
from argparse import Namespace
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn
from frontend.serialization import CheckpointError


class Global:
    """Pickles as the name of something in a module that need not exist."""

    def __init__(self, module: str, name: str):
        self.text = f"c{module}\n{name}\n".encode()


class Call:
    """Pickles as a call."""

    def __init__(self, function: Any, *arguments: Any, state: Any = None):
        self.function = function
        self.arguments = arguments
        self.state = state


class Stored:
    """Pickles as a persistent id."""

    def __init__(self, *identity: Any):
        self.identity = identity


def pickled(value: Any) -> bytes:
    """The pickle program, protocol 2, of plain values and the three above."""
    match value:
        case Global():
            return value.text
        case Call():
            payload = pickled(value.function) + pickled(value.arguments) + b"R"
            return payload if value.state is None else payload + pickled(value.state) + b"b"
        case Stored():
            return pickled(value.identity) + b"Q"
        case tuple():
            return b"(" + b"".join(map(pickled, value)) + b"t"
        case list():
            return b"](" + b"".join(map(pickled, value)) + b"e"
        case dict():
            items = b"".join(pickled(k) + pickled(v) for k, v in value.items())
            return b"}(" + items + b"u"
    return pickle.dumps(value, 2)[2:-1]


def archive(value: Any, storages: dict[str, bytes] | None = None, **members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        program = value if isinstance(value, bytes) else b"\x80\x02" + pickled(value) + b"."
        file.writestr("model/data.pkl", program)
        file.writestr("model/version", "3\n")
        for key, data in (storages or {}).items():
            file.writestr(f"model/data/{key}", data)
        for name, data in members.items():
            file.writestr(f"model/{name}", data)
    return buffer.getvalue()


def tensor(
    key: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int = 0,
    kind: str = "FloatStorage", requires_grad: bool = False,
) -> Call:  # fmt: skip
    stored = Stored("storage", Global("torch", kind), key, "cpu", 100)
    hooks = Call(Global("collections", "OrderedDict"))
    return Call(Global("torch._utils", "_rebuild_tensor_v2"), stored, offset, shape, strides,
                requires_grad, hooks)  # fmt: skip


DATA = {"0": np.arange(6, dtype=np.float32).tobytes(), "1": np.arange(3).tobytes()}


def loaded(value: Any, storages: dict[str, bytes] = DATA, **options: Any) -> Any:
    return torch.load(io.BytesIO(archive(value, storages)), **options)


def test_tensors_views_parameters_and_containers() -> None:
    whole = tensor("0", (2, 3), (3, 1))
    content = loaded(
        {
            "w": whole, "t": tensor("0", (3, 2), (1, 3), 0), "row": tensor("0", (3,), (1,), 3),
            "n": tensor("1", (3,), (1,), kind="LongStorage"), "epoch": 3, "none": None,
            "p": Call(Global("torch._utils", "_rebuild_parameter"), tensor("0", (6,), (1,)), True,
                      Call(Global("collections", "OrderedDict"))),
            "size": Call(Global("torch", "Size"), (2, 3)), "list": [1.5, (True, "x")],
        }
    )  # fmt: skip
    assert content["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert content["t"].tolist() == [[0, 3], [1, 4], [2, 5]] and content["row"].tolist() == [
        3,
        4,
        5,
    ]
    assert content["n"].dtype is torch.int64 and content["size"] == torch.Size([2, 3])
    assert isinstance(content["p"], nn.Parameter) and content["p"].requires_grad
    assert (content["epoch"], content["none"], content["list"]) == (3, None, [1.5, (True, "x")])
    content["row"].zero_()  # tensors over one storage share it
    assert content["w"].tolist() == [[0, 1, 2], [0, 0, 0]]


def test_a_state_dict_with_metadata_loads_into_a_module() -> None:
    items = [("weight", tensor("0", (2, 3), (3, 1))), ("bias", tensor("0", (2,), (1,)))]
    state = Call(Global("collections", "OrderedDict"), [list(item) for item in items],
                 state={"_metadata": {"": {"version": 1}}})  # fmt: skip
    content = loaded(state)
    assert type(content) is OrderedDict and content._metadata == {"": {"version": 1}}
    layer = nn.Linear(3, 2)
    layer.load_state_dict(content)
    assert layer.weight.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_scripts_arguments_are_kept(tmp_path: Path) -> None:
    arguments = Namespace(lr=0.1, betas=(0.9, 0.999), name="run", resume=None, gains=torch.ones(2))
    torch.save({"args": arguments, "again": arguments, "none": Namespace()}, tmp_path / "run.pt")
    back = torch.load(tmp_path / "run.pt")
    assert type(back["args"]) is Namespace and back["again"] is back["args"]
    assert (back["args"].lr, back["args"].betas, back["args"].name) == (0.1, (0.9, 0.999), "run")
    assert back["args"].gains.tolist() == [1.0, 1.0] and back["none"] == Namespace()


def trap(path: Path) -> str:
    return f"touch {path}"


def programs(path: Path) -> dict[str, Any]:
    """Known ways to make a pickle run something."""
    command = trap(path)
    system = Global("os", "system")
    text = f"__import__('os').system({command!r})"
    plain = {
        "a call of os.system": Call(system, command),
        "posix.system": Call(Global("posix", "system"), command),
        "builtins.eval": Call(Global("builtins", "eval"), text),
        "python 2's __builtin__": Call(Global("__builtin__", "eval"), text),
        "getattr chain": Call(Call(Global("builtins", "getattr"), Global("os", "path"), "os"), 1),
        "subprocess": Call(Global("subprocess", "Popen"), ["touch", str(path)]),
        "numpy's loader": Call(Global("numpy", "load"), str(path), True),
        "torch.load again": Call(Global("torch", "load"), str(path)),
        "torch.hub": Call(Global("torch.hub", "load"), str(path)),
        "a dotted name": Call(Global("torch", "_utils.os.system"), command),
        "the frontend itself": Call(Global("frontend.serialization", "load"), str(path)),
        "hidden in a dict key": {Call(system, command): 1},
        "hidden in a tensor's size": Call(
            Global("torch._utils", "_rebuild_tensor_v2"), Call(system, command), 0, (), (), False
        ),
        "state of an OrderedDict": Call(
            Global("collections", "OrderedDict"), state={"items": Call(system, command)}
        ),
        "hooks of a tensor": Call(
            Global("torch._utils", "_rebuild_tensor_v2"),
            Stored("storage", Global("torch", "FloatStorage"), "0", "cpu", 6), 0, (2,), (1,), False,
            [1],
        ),
        "a name as an object": Global("os", "system"),
        "an allowed class called as a storage": Call(Global("torch", "FloatStorage"), 3),
        "functools.partial": Call(Global("functools", "partial"), system, command),
        "copyreg": Call(Global("copyreg", "_reconstructor"), Global("os", "_wrap_close")),
    }  # fmt: skip
    quoted = command.encode()
    raw = {
        "INST": b"(S'" + quoted + b"'\nios\nsystem\n.",
        "OBJ": b"(cos\nsystem\nS'" + quoted + b"'\no.",
        "NEWOBJ": b"\x80\x02csubprocess\nPopen\n(S'touch'\nt\x81.",
        "STACK_GLOBAL": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c"
        + struct.pack("<B", len(quoted)) + quoted + b"\x85R.",
        "BUILD on a placeholder": b"\x80\x02" + pickled(tensor("0", (2,), (1,)))
        + pickled({"requires_grad": True, "__class__": 1}) + b"b.",
        "EXT": b"\x80\x02\x82\x01.",
        "a second pickle behind the first": b"\x80\x02}.cos\nsystem\n(S'" + quoted + b"'\ntR.",
    }  # fmt: skip
    return plain | raw


NAMES = list(programs(Path("x")))


@pytest.mark.parametrize("name", NAMES)
def test_tricks_run_nothing(name: str, tmp_path: Path) -> None:
    target = tmp_path / "pwned"
    program = programs(target)[name]
    data = archive(program, DATA)
    if name == "a second pickle behind the first":
        assert torch.load(io.BytesIO(data)) == {}  # only the first is read
    else:
        with pytest.raises(CheckpointError, match="is not a checkpoint"):
            torch.load(io.BytesIO(data))
    assert not target.exists()


def test_a_trap_would_have_run(tmp_path: Path) -> None:
    """The programs above are real: plain unpickling runs one."""
    target = tmp_path / "pwned"
    program = b"\x80\x02" + pickled(programs(target)["a call of os.system"]) + b"."
    pickle.loads(program)
    assert target.exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (tensor("0", (7,), (1,)), "beyond its storage"),
        (tensor("0", (2,), (100,)), "beyond its storage"),
        (tensor("0", (2,), (1,), 1 << 60), "beyond its storage"),
        (tensor("0", (-2,), (1,)), "strange geometry"),
        (tensor("0", (2,), (-1,)), "strange geometry"),
        (tensor("0", (2, 3), (1,)), "strange geometry"),
        (tensor("9", (2,), (1,)), "no item named"),
        (Stored("storage", 1, 2, 3, 4), "strange storage"),
        (Stored("../../etc/passwd"), "strange storage"),
    ],
)
def test_impossible_tensors_are_refused(value: Any, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        loaded(value)


def test_damaged_files_are_refused() -> None:
    data = archive({"w": tensor("0", (2, 3), (3, 1))}, DATA)
    for length in range(4, len(data), 7):
        with pytest.raises(CheckpointError, match="is not a checkpoint"):
            torch.load(io.BytesIO(data[:length]))
    with pytest.raises(CheckpointError, match="byte order"):
        torch.load(io.BytesIO(archive(1, byteorder=b"big")))
    cycle = b"\x80\x02]q\x00h\x00a."
    with pytest.raises(CheckpointError, match="contains itself"):
        torch.load(io.BytesIO(archive(cycle)))


def test_a_whole_module_is_loaded_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    torch.save(model, path)
    with pytest.raises(CheckpointError, match="holds pickled objects"):
        torch.load(path)
    again = torch.load(path, weights_only=False)
    assert again[0].weight.tolist() == model[0].weight.tolist()
    assert os.listdir(tmp_path) == ["model.pt"]


class Scaled(nn.Module):
    """A user's class with plain state, a function and a tensor of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        self.tied = self.inner[0].weight
        self.sizes, self.activation, self.dtype = [1, (2, 3)], F.relu, torch.float64
        self.plain = torch.arange(3)
        self.register_forward_hook(len)  # a function that nobody allows
        self._forward_hooks.clear()


CLASSES = [Scaled, nn.Sequential, nn.Linear, nn.BatchNorm1d, F.relu]


def test_a_whole_module_is_loaded_where_its_classes_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    model = Scaled()
    torch.save(model, path)
    with torch.serialization.safe_globals(CLASSES):
        again = torch.load(path)
    assert type(again) is Scaled and again.tied is again.inner[0].weight
    assert torch.equal(again.tied, model.tied) and again.tied.requires_grad
    assert list(again.state_dict()) == list(model.state_dict())
    assert (again.sizes, again.dtype) == ([1, (2, 3)], torch.float64)
    assert again.activation is F.relu and again.plain.tolist() == [0, 1, 2]
    (again.inner(torch.randn(3, 2)) ** 2).sum().backward()
    for missing in CLASSES:
        others = [item for item in CLASSES if item is not missing]
        with (
            torch.serialization.safe_globals(others),
            pytest.raises(CheckpointError, match=rf"names \S+{missing.__qualname__}, which"),
        ):
            torch.load(path)


def test_a_whole_module_does_not_name_what_the_frontend_is_installed_as(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Scaled()
    torch.save(model, tmp_path / "plain.pt")
    monkeypatch.setattr(torch.Tensor, "__module__", "torch")  # as install_as does
    torch.save(model, tmp_path / "installed.pt")
    assert (tmp_path / "plain.pt").read_bytes() == (tmp_path / "installed.pt").read_bytes()
    with torch.serialization.safe_globals(CLASSES):
        assert torch.load(tmp_path / "installed.pt").plain.tolist() == [0, 1, 2]


def test_what_is_not_allowed_is_not_run(tmp_path: Path) -> None:
    class Attack:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "made"),)

    model = Scaled()
    model.sizes = Attack()  # type: ignore[assignment]
    torch.save(model, tmp_path / "model.pt")
    whole = (tmp_path / "model.pt").read_bytes()
    with torch.serialization.safe_globals(CLASSES):
        with pytest.raises(CheckpointError, match=r"names posix\.mkdir"):
            torch.load(tmp_path / "model.pt")
        for length in (30, 200, len(whole) - 9):
            with pytest.raises(CheckpointError, match=r"or is damaged|names posix\.mkdir"):
                torch.load(io.BytesIO(whole[:length]))
    assert os.listdir(tmp_path) == ["model.pt"]

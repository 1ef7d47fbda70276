"""docs/coverage.md says what the frontend has: it is what its command writes today."""

from __future__ import annotations

import ast
import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def coverage() -> Any:
    spec = importlib.util.spec_from_file_location("coverage_of_pytorch", DOCS / "coverage.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_table_is_current() -> None:
    text = coverage().table()
    if os.environ.get("GRAPHC_UPDATE_DOCS"):
        (DOCS / "coverage.md").write_text(text, "utf-8")
    written = (DOCS / "coverage.md").read_text("utf-8")
    assert written == text, "run `python docs/coverage.py`"


def test_what_the_frontend_promises_is_there() -> None:
    """Every layer, loss and container that the first release of the frontend names."""
    module = coverage()
    known = dict(module.public_names())
    for space, names in {
        "torch.nn": "Linear Conv2d ConvTranspose2d MaxPool2d BatchNorm2d LSTM GRU Transformer "
        "MultiheadAttention CrossEntropyLoss ModuleDict ParameterList Upsample PixelShuffle",
        "torch": "einsum topk sort cumsum gather scatter where conv2d from_dlpack",
        "torch.optim": "SGD Adam AdamW RMSprop Adagrad",
        "torch.autograd": "Function grad gradcheck detect_anomaly",
    }.items():
        target = module.place(space)
        for name in names.split():
            assert name in known[space] and hasattr(target, name), f"{space}.{name}"


def used(source: str, path: str = "tests/frontend/test_x.py") -> Any:
    return coverage().UsedNames(Path(path), ast.parse(source))


def test_a_name_counts_in_its_namespace() -> None:
    names = used("import frontend as torch\nfrom frontend import nn\ntorch.fft.rfft(x.mm(y))").used
    assert {"torch.fft.rfft", "torch.Tensor.mm", "torch.nn"} <= names
    assert not {"torch.mm", "torch.sparse.mm", "torch.rfft", "torch.Tensor.rfft"} & names
    names = used("from frontend.nn import functional as F\nF.relu(x)\ndef f(peer): peer.torch.exp")
    assert {"torch.nn.functional.relu", "torch.exp"} <= names.used
    assert "torch.distributions.Beta" in used("lambda d: d.Beta(1, 2)").used
    assert "torch.special.erf" in used("f('t.special.erf(x)')", "tests/frontend/peers/x.py").used
    assert not used("'''relu'''\n# torch.relu").used


def test_words_of_strings_count_where_names_are_looked_up() -> None:
    file = used("import frontend as torch\nfor name in 'cos sin'.split(): getattr(torch, name)(x)")
    assert file.looked_up == {"torch"} and {"cos", "sin"} <= file.words
    file = used("from frontend import nn\ngetattr(nn, f'Conv{axes}d')")
    assert file.patterns == {("torch.nn", r"Conv(\w+?)d")}
    assert used("run(f't.fft.{name}(x)')", "tests/frontend/peers/x.py").looked_up == {"torch.fft"}


def test_what_raises_is_not_there() -> None:
    from frontend.nested import nested_tensor

    assert nested_tensor.absent
    assert not coverage().has(coverage().place("torch.nested"), "nested_tensor")

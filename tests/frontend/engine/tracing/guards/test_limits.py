"""How far what a function reads by name is followed: each thing once, to a limit."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import frontend as torch
from frontend import nn
from frontend.engine.tracing.guards import attributes

CLASS = """
class Kind{i}:
    width_{i} = {i}

    def step_{i}(self, other):
        return Kind{after}, Kind{far}, other.width_{after}, other.height_{i}
"""
FUNCTION = """
def step_{i}(x):
    return step_{after}(x)
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], Any]]:
    """Writes a module, and imports it."""
    names = []

    def write(name: str, text: str) -> ModuleType:
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        names.append(name)
        monkeypatch.syspath_prepend(path.parent)
        return importlib.import_module(name)

    yield write
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.slow
def test_thousands_of_classes_that_refer_to_each_other(written: Any) -> None:
    count = 3000
    text = "".join(
        CLASS.format(i=i, after=(i + 1) % count, far=i * 7 % count) for i in range(count)
    )
    module = written(
        "many_kinds", text + "\nSCALE = 2\n\ndef f(x):\n    Kind0\n    return x * SCALE\n"
    )
    compiled = torch.compile(module.f)
    with pytest.warns(
        UserWarning, match="code of f can read more by name .* as frozen, in many_kinds"
    ):
        assert compiled(torch.ones(2)).tolist() == [2, 2]
    module.SCALE = 3  # near the function: still looked at
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert compiled(torch.ones(2)).tolist() == [3, 3]


def test_a_long_way_to_what_is_read(written: Any) -> None:
    """As many functions one behind the other as Python's stack is not deep."""
    count = 2000
    text = "".join(FUNCTION.format(i=i, after=i + 1) for i in range(count))
    module = written(
        "long_way", f"{text}\nSCALE = 2\n\ndef step_{count}(x):\n    return x * SCALE\n\n"
        "def f(x, all=False):\n    return step_0(x) if all else step_2000(x)\n"
    )  # fmt: skip
    compiled = torch.compile(module.f)
    assert compiled(torch.ones(2)).tolist() == [2, 2]
    module.SCALE = 3
    assert compiled(torch.ones(2)).tolist() == [3, 3]


def test_the_limit_is_one_of_steps(written: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attributes, "MOST_STEPS", 20)
    text = "".join(CLASS.format(i=i, after=(i + 1) % 50, far=i) for i in range(50))
    module = written("some_kinds", text + "\ndef f(x):\n    Kind0\n    return x * 2\n")
    with pytest.warns(UserWarning, match="16,384 values, found in 20 steps"):
        assert torch.compile(module.f)(torch.ones(2)).tolist() == [2, 2]


def test_the_package_of_an_installed_module_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules of it are guarded, wherever they are compiled; its own names are not."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_net.py").write_text(
        "import logging\nfrom frontend import nn\n\nSTREAM = iter([1])\n\n"
        "class Net(nn.Module):\n    scale = 2\n\n    def forward(self, x):\n"
        "        x.tolist if False else STREAM\n        return x * self.factor\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(folder)
    try:
        net: Any = importlib.import_module("installed_net").Net()
        assert isinstance(net, nn.Module)
        net.factor = 2
        compiled = torch.compile(net)
        assert compiled(torch.ones(2)).tolist() == [2, 2]
        net.factor = 3
        assert compiled(torch.ones(2)).tolist() == [3, 3]
    finally:
        sys.modules.pop("installed_net", None)


def test_what_an_installed_decorator_goes_around_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The method that a class has is the package's then, and what it calls is not."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_decorators.py").write_text(
        "import functools\n\n"
        "def bare(function):\n    def call(*args):\n        return function(*args)\n"
        "    return call\n\n"
        "def kept(function):\n    return functools.wraps(function)(bare(function))\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(folder)
    try:
        decorators: Any = importlib.import_module("installed_decorators")

        class Scale:
            factor = 2.0

            @decorators.kept
            def by_name(self, x: Any) -> Any:
                return x * self.factor

            @decorators.bare
            def by_closure(self, x: Any) -> Any:
                return x + self.factor

        scale = Scale()
        scale.factor = 2.0
        compiled = torch.compile(lambda x: (scale.by_name(x), scale.by_closure(x)))
        for factor in (2.0, 3.0, 5.0, 7.0):
            scale.factor = factor
            first, second = compiled(torch.ones(2))
            assert first.tolist() == [factor] * 2 and second.tolist() == [factor + 1] * 2
    finally:
        sys.modules.pop("installed_decorators", None)

"""Public functions: one declaration each, from which every namespace is derived."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import frontend as torch
from frontend.functions import declarations
from frontend.functions.declarations import DECLARED, names_of, namespace, public
from frontend.namespace import lazily, lazy_names

F = torch.nn.functional
MODULES = lazily.declaring_modules()


def test_what_is_derived_is_what_modules_declare() -> None:
    """In a process of its own, as what is imported later is what is not imported yet."""
    code = (
        "import sys, frontend.namespace.lazily as l\n"
        "assert l.table(frozenset(sys.modules)) == l.TABLE.read_text('utf-8'), 'lazy_names.py'\n"
        "for space, file in l.STATIC.items():\n"
        "    text = l.TABLE.with_name(file + '.pyi').read_text('utf-8')\n"
        "    assert l.static(space) == text, file\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert not result.returncode, f"run python -m frontend.namespace.lazily\n{result.stderr}"


def test_every_module_that_declares_is_imported_at_once_or_later() -> None:
    assert len(MODULES) > 60 and lazy_names.LAZY.keys() <= set(MODULES)
    for module in MODULES:
        import_module(module)
    assert set(MODULES) <= DECLARED.keys()


def test_a_declared_function_is_one_object_under_all_its_names() -> None:
    checked = 0
    for module in MODULES:
        import_module(module)
        for names in names_of(module):
            function = names.declaration.function
            found = [getattr(torch, name) for name in names.in_namespace("torch")]
            found += [getattr(F, name) for name in names.in_namespace("nn.functional")]
            if module not in lazy_names.LAZY:
                found += [vars(torch.Tensor)[name] for name in names.methods()]
            assert all(each is function for each in found), (module, names)
            forms = [vars(torch.Tensor)[name] for name in names.in_place_methods()]
            assert module in lazy_names.LAZY or len({*map(id, forms)}) <= 1, names
            checked += len(found) + len(forms)
    assert checked > 900


def test_no_two_functions_have_one_qualified_name() -> None:
    """Walks over all that modules of functions have: a function that is replaced after others
    imported it would be there twice."""
    for module in MODULES:
        import_module(module)
    by_name: dict[tuple[str, str], FunctionType] = {}
    twice = []
    for name, module in list(sys.modules.items()):
        if not name.startswith("frontend"):
            continue
        for own, value in list(vars(module).items()):
            if not isinstance(value, FunctionType) or "<locals>" in value.__qualname__:
                continue  # made in a function, and not named since
            if own.startswith("_") or value.__module__ not in DECLARED:
                continue
            key = (value.__module__, value.__qualname__)
            if by_name.setdefault(key, value) is not value:
                twice.append((name, key))
    assert len(by_name) > 700
    assert not twice, twice


@pytest.mark.slow
def test_the_order_of_imports_means_nothing() -> None:
    """Whatever part is imported first, functions are the same objects, by the same names."""
    code = (
        "import {first}, frontend as torch\n"
        "from frontend.functions import pointwise, unary\n"
        "assert pointwise.square is unary.square is torch.square is torch.Tensor.square\n"
        "assert torch.nn.functional.mse_loss is torch.nn.functional.loss_pairs.mse_loss\n"
        "x = torch.ones(2, requires_grad=True)\n"
        "print(torch.square(x).grad_fn.name(), len(dir(torch)), len(dir(torch.Tensor)))"
    )
    firsts = ("frontend.functions.unary", "frontend.nn.functional.loss", "frontend.linalg")
    answers = {
        subprocess.run(
            [sys.executable, "-c", code.format(first=first)],
            capture_output=True, text=True, timeout=120,
        ).stdout.split(" ")[0]
        for first in firsts
    }  # fmt: skip
    assert answers == {"PowBackward0"}


def test_a_declaration_is_all_that_a_new_function_needs(tmp_path: Path) -> None:
    """CONTRIBUTING's way to add a function with its method and in-place form, in a copy: one file,
    one declaration."""
    package = Path(torch.__file__).parent
    shutil.copytree(package, tmp_path / "frontend", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "frontend/functions/pointwise.py").open("a", encoding="utf-8") as file:
        file.write(
            '\n\n@public(method=True, in_place="torch", node="Halved", '
            "numpy_names=True, out=True)\n"
            "def halved(input: Tensor, dim: int = 0) -> Tensor:\n"
            '    """input / 2."""\n'
            "    return input / 2\n\n\n"
            "semi = halved\n"
        )
    code = (
        "import frontend as torch\n"
        "x = torch.tensor([2.0, 4.0], requires_grad=True)\n"
        "assert torch.halved is torch.semi is torch.Tensor.halved is torch.Tensor.semi\n"
        "assert torch.halved(x, axis=0).grad_fn.name() == 'HalvedBackward0'\n"
        "y = torch.tensor([2.0, 4.0])\n"
        "assert y.semi_() is y and torch.halved_(y) is y\n"
        "assert torch.halved(y, out=torch.empty(2)).tolist() == [0.25, 0.5]\n"
        "print(torch.__file__, y.tolist())"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{package.parent}"}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
        cwd=tmp_path, env=environment,
    )  # fmt: skip
    expected = f"{tmp_path / 'frontend/__init__.py'} [0.5, 1.0]\n"
    assert result.stdout == expected, result.stderr


def test_a_name_that_two_functions_declare_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declarations, "DECLARED", {})
    first, second = (public(at="linalg")(lambda: None) for _ in range(2))
    own: Any = sys.modules[__name__]
    monkeypatch.setattr(own, "one_name", first, raising=False)
    assert namespace("linalg") == {"one_name": first}
    copied = declarations.DECLARED[__name__][1]
    declarations.DECLARED[__name__][1] = copied._replace(at="", also="linalg.one_name")
    with pytest.raises(TypeError, match=r"linalg\.one_name is declared twice"):
        namespace("linalg")
    assert second is copied.function

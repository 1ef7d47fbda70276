"""What the tests of eager mode on native kernels share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import frontend as torch
from frontend.engine.eager.kernels import kernel_families, native_ops, pointwise
from graphc.runtime import compile as compiling


@pytest.fixture
def fresh_native(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Eager mode on native kernels, as in a new process."""
    for module, name in (
        (kernel_families, "_FAMILIES"), (kernel_families, "_OF_ANY_LAYOUT"),
        (pointwise, "_VARIANTS"), (native_ops, "_MEMO"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, {})
    monkeypatch.setitem(torch.engine.tensors.state.PREPARED, "native", {})
    before = torch.get_eager_backend()
    torch.set_eager_backend("native")
    yield
    monkeypatch.undo()
    torch.set_eager_backend("numpy")  # the thread takes the table of ops anew
    torch.set_eager_backend(before)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the ops that were compiled."""
    compiled: list[str] = []
    program_for = compiling.program_for

    def noted(graph: Any, example: Any, **options: Any) -> Any:
        compiled.append(graph.name)
        return program_for(graph, example, **options)

    monkeypatch.setattr(compiling, "program_for", noted)
    return compiled

"""What is said of kept code is said of the code that is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphc
from graphc.codegen.options import CompileOptions
from graphc.codegen.program import link
from graphc.codegen.stages import Stages
from graphc.codegen.target import running as native
from graphc.debug import cache
from tests.passes.test_layouts import running


def test_why_asks_for_the_kernels_that_a_compile_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the layouts that the target prefers: in a loop the weight is read packed."""
    monkeypatch.setenv("GRAPHC_CACHE", str(tmp_path))
    monkeypatch.setattr(link, "_native", {})  # a kernel that this process has is not written
    graph = running()
    bare = CompileOptions("exact", native(None), layouts=False)
    assert Stages(graph, bare).plan != Stages(graph, CompileOptions("exact", native(None))).plan
    before = list(cache.why(graph, "exact", "host"))
    assert before and all(line.startswith("miss") for line in before)
    graphc.compile(graph, threads=1)
    after = list(cache.why(graph, "exact", "host"))
    assert len(after) == len(before) and all(line.startswith("hit") for line in after), after

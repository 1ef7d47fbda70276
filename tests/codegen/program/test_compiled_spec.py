"""Kernels kept under their specifications: found without lowering, compiled again where not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import graphc
from graphc import ops
from graphc.codegen.cache.object_cache import user_cache
from graphc.codegen.llvm import jit, loading
from graphc.codegen.program import compiled_spec as module
from graphc.codegen.program.compiled_spec import compiled_spec, spec_key
from graphc.codegen.target import named
from graphc.schedule.plan import KernelSpec

V2, V3 = named("x86-64-v2"), named("x86-64-v3")


def spec(size: int = 37, name: str = "body") -> KernelSpec:
    g = graphc.GraphBuilder(name)
    return KernelSpec("nest", g.finish(ops.exp(g.input("x", f"f32[{size}]"))))


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, and no memory of what was compiled before."""
    monkeypatch.setenv("GRAPHC_CACHE", str(tmp_path / "cache"))
    forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_compiled", {})
    loading._LOADED.clear()


def test_what_is_kept_is_not_lowered_again(
    fresh_cache: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compiled_spec(spec(), V2, {})
    forget(monkeypatch)

    def refuse(*_: Any) -> Any:
        raise AssertionError("lowered again")

    with monkeypatch.context() as patched:
        patched.setattr(module, "lower", refuse)
        assert compiled_spec(spec(), V2, {}) == first
        with pytest.raises(AssertionError, match="lowered again"):
            compiled_spec(spec(38), V2, {})
    assert first.facts.extent > 0 and first.object


def test_without_its_code_an_entry_is_compiled_again(
    fresh_cache: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, store = compiled_spec(spec(), V2, {}), user_cache()
    assert store is not None
    store._path(first.facts.symbol).unlink()
    forget(monkeypatch)
    assert compiled_spec(spec(), V2, {}).facts == first.facts
    store.put(spec_key(spec(), V2), b'{"symbol": 3}', {})
    assert compiled_spec(spec(), V2, {}).facts == first.facts


def test_keys_tell_what_lowering_depends_on() -> None:
    keys = [spec_key(spec(), V2), spec_key(spec(38), V2), spec_key(spec(), V3)]
    assert len(set(keys)) == 3 and spec_key(spec(), V2) == keys[0]

"""Targets: which there are, which of them this machine runs, and what chooses one."""

from __future__ import annotations

import numpy as np
import pytest

import frontend as torch
import graphc
from frontend.engine.eager.kernels import native_ops
from graphc import ops
from graphc.codegen import target
from graphc.codegen.llvm import native
from graphc.codegen.target import executable, host, named, running
from graphc.debug.decisions import decisions
from graphc.errors import TargetError
from graphc.runtime.program import program_key

X86 = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


@pytest.fixture
def without_wide_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor of the second level."""
    from llvmlite import binding

    features = dict.fromkeys(named("x86-64-v2").needs, True)
    monkeypatch.setattr(target, "host", lambda: named("x86-64-v2"))
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: features)
    for memo in (target._lacking, target.executable):
        monkeypatch.setattr(target, memo.__name__, memo.__wrapped__)


def processor(monkeypatch: pytest.MonkeyPatch, name: str) -> target.Target:
    """The host, were it one of these, with all extensions for narrow products."""
    from llvmlite import binding

    names = (*named("x86-64-v4").needs, "avx512bf16", "avx512vnni")
    features = binding.FeatureMap(dict.fromkeys(names, True))
    monkeypatch.setattr(binding, "get_process_triple", lambda: named("x86-64-v4").triple)
    monkeypatch.setattr(binding, "get_host_cpu_name", lambda: name)
    monkeypatch.setattr(binding, "get_host_cpu_features", lambda: features)
    return host.__wrapped__()


@pytest.mark.parametrize(
    ("name", "fast"),
    [("cooperlake", True), ("znver4", True), ("znver5", True), ("sapphirerapids", False),
     ("emeraldrapids", False), ("graniterapids", False), ("icelake-client", False)],
)  # fmt: skip
def test_pairs_are_the_instructions_where_that_is_fast(
    name: str, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some processors have it at half the speed of FMAs; the choice is that of the name, which
    stands in the keys of caches. Targets that name the extension have it."""
    chosen = processor(monkeypatch, name)
    assert (chosen.paired_products, chosen.slow_pairs) == (fast, not fast)
    assert chosen.quad_products
    assert name in chosen.key
    extended = named("x86-64-v4+bf16")
    assert extended.paired_products
    assert not extended.slow_pairs


def test_an_instruction_that_is_not_used_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    b = graphc.GraphBuilder("product")
    body = b.finish(ops.paired_matmul(b.input("x", "bf16[8,64]"), b.input("y", "bf16[64,32]")))
    for name, told in (("emeraldrapids", True), ("znver4", False)):
        (strategy,) = (
            each for each in decisions(body, target=processor(monkeypatch, name), threads=1)
            if each.kind == "strategy"
        )  # fmt: skip
        assert ("pairs of bf16 is not used: FMAs" in strategy.why) == told
        assert any(each.startswith("cost of paired_matmul") for each in strategy.numbers)
    b = graphc.GraphBuilder("floats")
    product = ops.matmul(b.input("x", "f32[8,64]"), b.input("y", "f32[64,32]"))
    body = b.finish(product * 2.5)
    slow = processor(monkeypatch, "emeraldrapids")
    assert not any("not used" in each.why for each in decisions(body, target=slow, threads=1))


def graph() -> graphc.Graph:
    g = graphc.GraphBuilder("twice")
    x = g.input("x", "f32[100]")
    return g.finish(x + x)


def test_levels_contain_each_other() -> None:
    second, third, fourth = (set(named(name).needs) for name in X86)
    assert second < third < fourth


def test_a_machine_runs_the_levels_it_has(without_wide_vectors: None) -> None:
    assert [each.name for each in target.executable()] == ["x86-64-v2"]
    message = r"cannot run code for x86-64-v3: its processor has no avx, avx2.*\n.*host, x86-64-v2$"
    with pytest.raises(TargetError, match=message):
        running("x86-64-v3")


def test_another_machine_is_told() -> None:
    other = "aarch64" if host().triple.startswith("x86") else "x86-64-v2"
    with pytest.raises(TargetError, match=f"for {other}: it is .*, not "):
        running(other)
    with pytest.raises(TargetError, match="cannot run code"):
        graphc.compile(graph(), target=other)
    with pytest.raises(ValueError, match="cannot run code"):
        torch.compile(lambda x: x, target=other)


def test_the_setting_chooses_what_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHC_TARGET", executable()[0].name)
    assert running() is executable()[0]
    assert graphc.compile(graph()).target is executable()[0]
    assert running("host") is host()
    monkeypatch.delenv("GRAPHC_TARGET")
    assert running() is host()
    monkeypatch.setenv("GRAPHC_TARGET", "x86-65")
    with pytest.raises(TargetError, match=r"'x86-65' is no known target\n  try: one of host, x86"):
        running()


@pytest.mark.parametrize("chosen", executable(), ids=lambda each: each.name)
def test_all_that_runs_natively_is_for_the_chosen_target(
    chosen: target.Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled functions and eager kernels: object code is asked for that target alone."""
    compiled = set()
    machine_of = native.machine_of

    def seen(asked: target.Target, *level: int) -> object:
        compiled.add(asked.key)
        return machine_of(asked, *level)

    x = torch.arange(37.0)
    graphc.compile(graph())(np.zeros(100, np.float32))  # what links code is the host's
    monkeypatch.setattr(native, "machine_of", seen)
    function = torch.compile(lambda x: x * 3 + 1.25, target=chosen.name)
    assert function(x).tolist() == [number * 3 + 1.25 for number in range(37)]
    assert compiled <= {chosen.key}
    monkeypatch.setenv("GRAPHC_TARGET", chosen.name)
    monkeypatch.setattr(native_ops, "_MEMO", {})
    before = torch.get_eager_backend()
    torch.set_eager_backend("native")
    try:
        assert (x[: 30 + chosen.vector_bytes] * 3.5).tolist()[3] == 10.5
    finally:
        torch.set_eager_backend(before)
    assert compiled == {chosen.key}


def test_an_option_is_a_name() -> None:
    with pytest.raises(TypeError, match="target must be a name or None, not int"):
        torch.compile(lambda x: x, target=4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'v9' is no known target"):
        torch.compile(lambda x: x, target="v9")


def test_decorated_with_options() -> None:
    name = executable()[0].name

    @torch.compile(target=name)
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x + x

    assert twice(torch.ones(3)).tolist() == [2.0] * 3
    assert twice.specializations[0].executables[0].target.name == name


def test_programs_are_kept_by_target() -> None:
    """Caches' sizes decide how loops are cut, so they count too."""
    from graphc.records import replace

    targets = [*map(named, X86), replace(named("x86-64-v3"), l2_bytes=1 << 18)]
    assert len({program_key(graph(), each, "exact") for each in targets}) == 4


@pytest.mark.parametrize("chosen", executable(), ids=lambda each: each.name)
def test_a_call_gives_the_same_bits_on_every_target(chosen: target.Target) -> None:
    g = graphc.GraphBuilder("product")
    x, w = g.input("x", "f32[33,70]"), g.input("w", "f32[70,41]")
    product = g.finish(x @ w)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((33, 70), (70, 41))]
    (have,), (want,) = (
        graphc.compile(product, target=chosen)(*arrays),
        graphc.compile(product)(*arrays),
    )
    np.testing.assert_array_equal(have.view(np.int32), want.view(np.int32))

"""Verification holds for what is right, and names who is to blame for each planted fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from graphc.codegen.kernels import lower as recipes
from graphc.codegen.libm import vector_math
from graphc.codegen.loop_ir.nodes import For, Store
from graphc.codegen.program import driver, link
from graphc.debug.cli import main
from graphc.debug.load import loaded_calls
from graphc.debug.traced import CallOptions, DrawnInput, OpenedGraph, TracedCall
from graphc.debug.verification import launch_stage, plan_stage
from graphc.debug.verification.comparing import difference
from graphc.debug.verification.findings import Finding, Verification
from graphc.debug.verification.rules import with_sentences
from graphc.debug.verification.verifier import verify_call
from graphc.ir.dims import Extent, dim
from graphc.ir.instances import at_sizes
from graphc.ir.parser import parse
from graphc.ir.symbols import symbols_of
from graphc.passes import canonicalize
from graphc.passes.patterns import table
from graphc.records import replace
from graphc.schedule import build, memory
from tests.codegen.nests.test_attention import backward, forward

GRAPH = parse("""
    graph layer(%x: f32[6,5], %w: f32[5,4], %y: f32[6,4]) {
      %h = matmul(%x, %w) : f32[6,4]  // net.py:3 in forward [layer.up]
      %t = exp(%h) : f32[6,4]  // net.py:4 in forward [layer.act]
      %n = neg(%t) : f32[6,4]  // net.py:5 in forward [layer]
      %one = constant f32[6,4] splat 1.0
      %z = mul(%y, %one) : f32[6,4]  // net.py:5 in forward [layer]
      %d = sub(%n, %z) : f32[6,4]  // net.py:6 in forward [layer]
      %s = sum(%d) axes=[0] : f32[4]  // net.py:7 in forward [layer.pool]
      %m = sum(%t) axes=[1] : f32[6]  // net.py:8 in forward [layer.pool]
      %q = mul(%m, %m) : f32[6]  // net.py:9 in forward [layer.pool]
      return %d, %s, %q
    }""")


def call(graph: Any = GRAPH, level: str = "exact", **rest: Any) -> TracedCall:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape).astype(t.dtype.numpy) for t in graph.input_types]
    return TracedCall(graph, tuple(arrays), CallOptions(level, threads=1), **rest)


def blamed(verification: Verification) -> Finding:
    """The first finding."""
    assert not verification and str(verification)
    return verification.findings[0]


def test_a_right_call_holds_at_all_levels() -> None:
    for level in ("exact", "relaxed"):
        verification = verify_call(call(level=level))
        assert verification, str(verification)
        stages = [stage.name for stage in verification.stages]
        assert stages[0] == "ops"
        assert stages[-5:] == ["plan", "nests", "loops", "native", "call on 1 thread"]
        assert any(name.startswith("pass ") for name in stages)


@pytest.mark.parametrize("wrong", ["mul(x, -1.00001)", "abs(x)"])
def test_a_wrong_rule_is_named(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonicalize, "RULES", table(("neg(x)", wrong)) + canonicalize.RULES)
    finding = blamed(verify_call(call()))
    assert f"rule neg(x) -> {wrong}" in finding.blame and "pass canonicalize" in finding.blame
    assert (finding.place.line, finding.place.module) == ("net.py:5", "layer")
    assert finding.what.startswith("neg") and "it turned" in finding.detail
    assert len(verify_call(call()).findings) == 1  # what follows is right for what it was given


def test_a_wrong_coefficient_is_found_in_the_kernel_of_its_op(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "_native", {})
    wrong = (vector_math.STEP_Q[0] * 1.01, *vector_math.STEP_Q[1:])
    monkeypatch.setattr(vector_math, "STEP_Q", wrong)
    finding = blamed(verify_call(call()))
    assert "the kernel of op exp" in finding.blame
    assert (finding.place.line, finding.place.module) == ("net.py:4", "layer.act")


def test_overlapping_buffers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = memory.plan_offsets
    monkeypatch.setattr(
        memory, "plan_offsets", lambda sizes, lives: ([0] * len(sizes), plain(sizes, lives)[1])
    )
    chain = parse(
        """
        graph chain(%x: f32[64,5], %y: f32[64,5]) {
          %a = sum(%x) axes=[0] : f32[5]  // net.py:1 in f [a]
          %b = sum(%y) axes=[0] : f32[5]  // net.py:2 in f [b]
          %c = matmul(%x, %w) : f32[64,64]  // net.py:3 in f [c]
          return %c
        }""".replace("matmul(%x, %w) : f32[64,64]", "mul(%a, %b) : f32[5]")
    )
    finding = blamed(verify_call(call(chain, level="none")))
    assert "rule P3: arena buffers lie inside the arena" in finding.what
    for module in (build, plan_stage):  # and what happens is seen where no rule tells
        monkeypatch.setattr(module, "verify_plan", lambda plan: plan)
    finding = blamed(verify_call(call(chain, level="none")))
    assert "the plan of memory: step 1" in finding.blame and "still read" in finding.blame
    assert finding.place.line == "net.py:3" and "reads b" in finding.what


def without_stores(statements: Any, buffer: str) -> Any:
    """Statements of loops without what they write to a buffer."""
    kept = [s for s in statements if not (isinstance(s, Store) and s.buffer.name == buffer)]
    return tuple(
        replace(s, body=without_stores(s.body, buffer)) if isinstance(s, For) else s for s in kept
    )


def test_an_output_that_a_kernel_leaves_unwritten_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgetful(name: str, body: Any, target: Any) -> Any:
        kernel = recipes.lower_nest(name, body, target)
        if not {"sum", "mul"} <= {node.op for node in body.nodes}:
            return kernel  # the ops' own kernels stay whole
        return replace(kernel, body=without_stores(kernel.body, kernel.buffers[-1].name))

    monkeypatch.setattr(link, "_native", {})
    monkeypatch.setitem(recipes.RECIPES, "nest", forgetful)
    verification = verify_call(call())
    finding = blamed(verification)
    assert "the lowering of k" in finding.blame and "rule R3: " in finding.what
    native = next(stage for stage in verification.stages if stage.name == "native")
    assert "left unwritten" in native.findings[0].detail
    assert native.findings[0].place.module == "layer.pool"


def test_a_nest_that_breaks_a_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    contract_nest = recipes.NESTS["contract"]

    def unready(body: Any, target: Any) -> Any:
        nest = contract_nest(body, target)
        assert nest is not None
        return replace(nest, axes=nest.axes[1:])

    monkeypatch.setitem(recipes.NESTS, "contract", unready)
    finding = blamed(verify_call(call()))
    assert "the nest of k" in finding.blame
    assert "rule N1: axes, splits and stages have names of their own" in finding.what


def test_a_driver_that_leaves_a_launch_out_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = driver.Driver._launch

    def lazy(self: Any, frame: Any, step: Any, *rest: Any) -> None:
        if any(node.op == "mul" for node in step.kernel.body.nodes) and len(self.plan.steps) > 1:
            return
        plain(self, frame, step, *rest)

    monkeypatch.setattr(driver.Driver, "_launch", lazy)
    finding = blamed(verify_call(call()))
    assert finding.blame == "the driver" and finding.place.line == "net.py:9"


def test_a_trace_that_is_not_what_the_program_does_is_blamed() -> None:
    right = verify_call(call())
    assert right
    finding = blamed(verify_call(call(eager=lambda backend: [np.ones((6, 4), np.float32)])))
    assert "the trace" in finding.blame and finding.place.line == "net.py:6"


def test_a_broken_rule_says_its_sentence() -> None:
    assert with_sentences("plan rule P5 broken at step 3").endswith(
        "rule P5: every output is written"
    )
    assert "G1" in with_sentences("rule G1") and with_sentences("no rule") == "no rule"


def test_arrays_are_told_apart_by_bits() -> None:
    zero = np.zeros(3, np.float32)
    assert difference(zero, zero) is None
    assert difference(-zero, zero) is not None
    assert difference(-zero, zero, np.zeros(())) is None
    nan = np.array([np.nan, 1], np.float32)
    assert difference(nan, -nan * [1, -1]) is None
    apart = difference(np.array([1, 2, 3]), np.array([1, 2, 5]))
    assert apart is not None and (apart.elements, apart.index, apart.ulps) == (1, (2,), 2.0)


NET = """
from typing import Annotated, Any
import frontend as torch
from frontend import nn, optim

net = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

@torch.compile(threads=1)
def step(x):
    net(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()

def doubled(x: Annotated[Any, "f32[5,3]"]):
    return x * 2
"""


def test_verifying_a_step_leaves_all_state_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    space: dict[str, Any] = {}
    exec(compile(NET, "net.py", "exec"), space)
    net, step = space["net"], space["step"]
    before = {name: value.numpy().copy() for name, value in net.state_dict().items()}
    random = torch.get_rng_state().numpy().copy()
    assert step.verify(torch.ones(5, 3))
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    np.testing.assert_array_equal(torch.get_rng_state().numpy(), random)
    assert len(space["optimizer"].state) == 0 and all(p.grad is None for p in net.parameters())
    file = tmp_path / "net.py"
    file.write_text(NET, "utf-8")
    assert main(["verify", f"{file}:doubled", "--threads", "1"]) == 0
    shown = capsys.readouterr().out
    assert "doubled, level exact: holds" in shown and "ok    eager: " in shown
    monkeypatch.setattr(canonicalize, "RULES", table(("mul(x, y)", "add(x, y)")))
    assert main(["verify", f"{file}:doubled", "--threads", "1"]) == 1
    assert "rule mul(x, y) -> add(x, y)" in capsys.readouterr().out


def test_a_forward_that_can_be_differentiated_is_verified_with_its_backward() -> None:
    layer = torch.compile(nn.Linear(3, 2), threads=1)
    forward, backward = layer.verify(torch.ones(4, 3))
    assert forward and backward
    assert [v.name for v in (forward, backward)] == ["Linear_forward", "Linear_backward"]


def test_a_loop_in_python_may_sum_a_gradient_in_another_order(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text(
        "import frontend as torch\n"
        "w = torch.nn.Parameter(torch.eye(3))\n"
        "def step(x):\n"
        "    last, _ = torch.scan(lambda h, row: (torch.tanh(h @ w + row),) * 2, x[0], x)\n"
        "    w.grad = None\n"
        "    loss = last.square().mean()\n"
        "    loss.backward()\n"
        "    return loss\n",
        "utf-8",
    )
    inputs = [DrawnInput.parse("f32[4,2,3]")]
    with loaded_calls(f"{tmp_path / 'step.py'}:step", inputs, threads=1) as (traced,):
        verification = verify_call(traced)
        assert verification, str(verification)
        assert "which Python sums turn by turn" in verification.stages[0].promise

        def off(backend: str) -> Any:
            assert traced.eager is not None
            return [None if x is None else x * np.float32(1.01) for x in traced.eager(backend)]

        assert "the trace" in blamed(verify_call(replace(traced, eager=off))).blame


OPEN = parse("""
    graph layer(%x: f32[n,5], %w: f32[5,4], %y: f32[n,4]) where 2 <= n {
      %h = matmul(%x, %w) : f32[n,4]  // net.py:3 in forward [layer.up]
      %t = exp(%h) : f32[n,4]  // net.py:4 in forward [layer.act]
      %n = neg(%t) : f32[n,4]  // net.py:5 in forward [layer]
      %d = sub(%n, %y) : f32[n,4]  // net.py:6 in forward [layer]
      %s = sum(%d) axes=[0] : f32[4]  // net.py:7 in forward [layer.pool]
      %m = sum(%t) axes=[1] : f32[n]  // net.py:8 in forward [layer.pool]
      %q = mul(%m, %m) : f32[n]  // net.py:9 in forward [layer.pool]
      return %d, %s, %q
    }""")
"""Much the same for any number of rows."""


def opened(rows: int, graph: Any = OPEN, example: int = 40) -> TracedCall:
    known = at_sizes(graph, {"n": rows})
    return call(known, opened=OpenedGraph(graph, {"n": rows}, {"n": example}))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("rows", [2, 6, 70])
def test_a_call_of_a_program_for_any_size_holds(rows: int) -> None:
    verification = verify_call(opened(rows))
    assert verification, str(verification)
    names = [stage.name for stage in verification.stages]
    assert names[-4:] == ["nests", "loops", "native", "call on 1 thread"]


@pytest.mark.parametrize("rows, columns", [(dim("n"), 9), (9, dim("n"))])
def test_attention_of_no_rows_or_columns_holds(rows: Extent, columns: Extent) -> None:
    """Of numbers alone such a graph has no attention left; of sizes it has its kernel."""
    for graph in (forward(rows, columns, 0, 1), backward(rows, columns, 0, 1, 2)):
        verification = verify_call(opened(0, graph, example=5))
        assert verification, str(verification)
        assert "1 of 1 kernels run as nests" in [stage.compared for stage in verification.stages]


def test_the_kernels_that_run_are_those_that_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lowering that is wrong for open sizes alone, at a size whose own lowering is right."""

    def forgetful(name: str, body: Any, target: Any) -> Any:
        kernel = recipes.lower_nest(name, body, target)
        if not symbols_of(body) or not {"sum", "mul"} <= {node.op for node in body.nodes}:
            return kernel
        return replace(kernel, body=without_stores(kernel.body, kernel.buffers[-1].name))

    monkeypatch.setattr(link, "_native", {})
    monkeypatch.setitem(recipes.RECIPES, "nest", forgetful)
    assert verify_call(call()), "of its own size it is right"
    verification = verify_call(opened(6))
    assert "the lowering of k" in blamed(verification).blame
    stages = {stage.name for stage in verification.stages if stage.findings}
    assert {"loops", "native", "call on 1 thread"} <= stages


def test_the_kernel_of_a_size_class_is_checked_at_its_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from graphc.codegen.kernels import size_class

    planes = parse("""
        graph planes(%x: f32[n,2,3,3], %w: f32[2,2,3,3]) where 2 <= n {
          %y = conv(%x, %w) dilation=[1, 1] groups=1 padding=[1, 1] stride=[1, 1] : f32[n,2,3,3]
          return %y
        }""")
    contract = recipes.lower_contract

    def noted(name: str, body: Any, target: Any) -> Any:
        kernel = contract(name, body, target)
        least = max((symbol.least for symbol in symbols_of(body)), default=0)
        if least <= 2:
            return kernel
        return replace(kernel, body=without_stores(kernel.body, kernel.buffers[-1].name))

    monkeypatch.setattr(link, "_native", {})
    monkeypatch.setattr(size_class, "WORTH", 1e9)
    size_class.size_class.cache_clear()
    monkeypatch.setitem(recipes.RECIPES, "contract", noted)
    assert verify_call(opened(3, planes)), "fewer images than lanes: the other kernel"
    assert not verify_call(opened(17, planes))
    size_class.size_class.cache_clear()


def test_a_compiled_function_of_open_sizes_is_verified_as_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    linear = nn.Linear(5, 4)

    @torch.compile(threads=1)
    def step(x: Any) -> Any:
        loss = (linear(x).exp() * x.shape[0]).mean()
        loss.backward()
        return loss

    for rows in (3, 7):
        step(torch.ones(rows, 5))
    assert step.specializations[-1].program.sizes is not None, "for any number of rows"
    asked: list[Any] = []
    plain = link.native_kernel

    def noted(spec: Any, *rest: Any) -> Any:
        asked.append(spec)
        return plain(spec, *rest)

    monkeypatch.setattr(launch_stage, "native_kernel", noted)
    verification = step.verify(torch.ones(9, 5))
    assert verification, str(verification)
    assert asked and all(symbols_of(spec.body) for spec in asked if spec.recipe == "contract")
    assert step.verify(torch.ones(1, 5)), "a batch of one is a program of its own"

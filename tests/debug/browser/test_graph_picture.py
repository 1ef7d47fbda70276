"""The picture of the graph: it is that graph, folds and unfolds, leads from a node to its code, and
draws little for a large program. Elements are counted here; how long a page takes to open tells
`python benchmarks/report_page.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphc.ir.nodes import Graph
from graphc.passes.pipelines import optimize
from graphc.passes.recorder import Recorder
from tests.debug.browser.waiting import until

MOST_ELEMENTS = 700
"""Of the picture of a large graph as it opens."""
FORWARD = "#graph .cell:has(rect.forward)"
COMPUTED = "document.querySelectorAll('#node a[data-step]').length > 0"


def names(page: Any, boxes: str) -> list[str]:
    """Those of folded boxes: what stands behind the sign of folding."""
    titles = "(titles) => titles.map((title) => title.firstChild.textContent.slice(2))"
    shown: list[str] = page.locator(f"{boxes} .name").evaluate_all(titles)
    return shown


def elements(page: Any) -> int:
    count: int = page.evaluate("probes.elements()")
    return count


def to_stage(page: Any, stage: int) -> None:
    page.fill("#graphStage", str(stage))
    until(page, f"probes.arrived({stage})")


def test_gpt_folds_to_its_twelve_blocks(opened: Callable[[str], Any]) -> None:
    page = opened("gpt12")
    folded = elements(page)
    assert folded < MOST_ELEMENTS
    for lane in ("forward", "backward", "update"):
        shown = names(page, f"#graph .cell:has(rect.{lane})")
        blocks = [name for name in shown if name.startswith("blocks.")]
        assert sorted(blocks) == sorted(f"blocks.{i}" for i in range(12))
    edges = page.evaluate("probes.chain()")
    for i in range(11):
        assert f"0 gpt.blocks.{i} gpt.blocks.{i + 1}" in edges
        assert f"1 gpt.blocks.{i + 1} gpt.blocks.{i}" in edges
    assert page.evaluate("probes.apart()") == []
    page.click(f"{FORWARD}[data-fold='gpt.blocks.3']")
    assert page.locator("#graph .node .name", has_text="attention").count() == 2
    assert page.evaluate("probes.apart()") == []
    page.locator("#graph .frame[data-key='gpt.blocks.3'] > [data-fold]").press("Enter")
    assert elements(page) == folded


def test_a_residual_network_shows_its_blocks(opened: Callable[[str], Any]) -> None:
    page = opened("resnet18")
    shown = {name for name in names(page, FORWARD) if "net." in name}
    assert shown == {f"net.{i}" for i in range(14)}
    assert elements(page) < MOST_ELEMENTS
    assert "2 conv" in page.text_content(f"{FORWARD}[data-fold='net.3']")
    page.click(f"{FORWARD}[data-fold='net.5']")
    assert {"conv1", "bn1", "conv2", "bn2", "shortcut"} <= set(names(page, "#graph .cell"))
    assert page.evaluate("probes.apart()") == []


@pytest.mark.parametrize("name", ["lstm", "resnet18"])
def test_unfolded_as_a_whole_it_is_the_graph(
    name: str, opened: Callable[[str], Any], written: Callable[[str], tuple[Path, Graph]]
) -> None:
    """As traced and after the passes: the same operands, a box for each node but for numbers that
    stand in what reads them, and an edge for each pair."""
    graph = written(name)[1]
    recorder = Recorder()
    optimised = optimize(graph, "exact", recorder)
    page = opened(name)
    passes = [each.name for each in recorder.passes if each.before != each.after]
    stages = page.evaluate("CALL.stages.map(([name]) => name)")
    assert set(passes) - {"layouts"} <= set(stages)
    for stage, expected in ((0, graph), (stages.index(passes[-1]), optimised)):
        to_stage(page, stage)
        operands = [[value.node for value in node.operands] for node in expected.nodes]
        if stage == 0 or name == "resnet18":  # what a loop's layouts are, the processor decides
            told = page.evaluate(f"stageOf({stage}).operands.slice(0, {len(operands)})")
            assert told == operands
        for _ in range(6):
            page.click("[data-graph='deeper']")
        assert page.evaluate("probes.unseen()") == [0, 0, 0]
        assert page.evaluate("probes.apart()") == []
        if name == "resnet18":
            number = page.evaluate("current().scalar.map((text) => text !== null)")
            pairs = {
                f"{operand} {node}"
                for node, listed in enumerate(operands)
                for operand in listed
                if not number[node] and not number[operand]
            }
            assert page.evaluate("probes.pairs()") == sorted(pairs)
        page.click("[data-graph='fold']")


def test_a_node_leads_to_its_kernel_and_its_line(opened: Callable[[str], Any]) -> None:
    page = opened("gpt12")
    page.click(f"{FORWARD}[data-fold='gpt.blocks.3']")
    page.click(f"{FORWARD}[data-fold='gpt.blocks.3.qkv']")
    page.locator("#graph .node:has(rect.forward)", has_text="matmul").first.click()
    until(page, "!document.querySelector('#side').textContent.includes('opening')")
    node = page.inner_text("#node")
    assert "gpt.blocks.3.qkv" in node and "parts = self.qkv(self.ln1(x))" in node
    assert "f32[128,192]" in node and "about this node" in node
    launch = page.locator("#node a[data-step]").first.inner_text()
    assert "matmul" in launch and page.inner_text("#side h2 >> nth=1").startswith(launch)
    for key, sign in (("1", "matmul("), ("2", "nest "), ("3", "kernel ")):
        page.keyboard.press(key)
        assert sign in page.inner_text("#text")
    assert page.locator("#graph rect.together").count() >= 2  # what became one launch
    operand = page.locator("#node a[data-goto]").first
    other = operand.inner_text()
    operand.click()
    assert page.inner_text("#node h2").startswith(other)
    page.locator("#launches tr[data-step]", has_text="attention_grad").first.click()
    page.click("[data-reveal]")
    assert "attention_grad" in page.inner_text("#side h2 >> nth=1")
    assert page.locator("#graph rect.chosen").count() == 1


def test_the_slider_goes_through_the_passes(opened: Callable[[str], Any]) -> None:
    page = opened("gpt12")
    stages = page.evaluate("CALL.stages")
    to_stage(page, 0)
    assert page.inner_text("#graphStages") == "as traced"
    assert page.inner_text("#graphCount").startswith(f"{stages[0][1]:,} nodes")
    page.click(f"{FORWARD}[data-fold='gpt.blocks.3']")
    page.locator("#graph .node:has(rect.forward)", has_text="gelu").first.click()
    until(page, COMPUTED)  # also what no kernel computes as it was traced
    assert "gelu" in page.inner_text("#node h2")
    for number, (name, count) in list(enumerate(stages))[1:]:
        page.keyboard.press(".")
        until(page, f"probes.arrived({number})")
        assert f"after {name} ({number} of" in page.inner_text("#graphStages")
        assert f"{count:,} nodes" in page.inner_text("#graphCount")
        shown = [name for name in names(page, FORWARD) if "blocks." in name]
        assert len(shown) == 11 and "blocks.3" not in shown  # what is unfolded stays so
        assert page.evaluate("probes.apart()") == []
    assert "gelu" not in page.inner_text("#node h2")  # what became of it is still chosen
    for colour in ("change", "launch", "time", "phase"):
        page.select_option("#graphColour", colour)
        tinted = page.locator("#graph [style*='--tint']").count()
        assert (tinted > 0) == (colour != "phase")
    page.fill("#graphFind", "erf")
    assert page.inner_text("#graphFound").startswith("12 nodes")
    page.keyboard.press("Enter")
    assert "erf" in page.inner_text("#node h2")


def test_it_zooms_and_tells_what_is_under_the_pointer(opened: Callable[[str], Any]) -> None:
    page = opened("lstm")
    wide = float(page.get_attribute("#graphSvg", "width"))
    page.click("[data-graph='in']")
    assert float(page.get_attribute("#graphSvg", "width")) > wide
    page.click("[data-graph='fit']")
    assert float(page.get_attribute("#graphSvg", "width")) == pytest.approx(wide)
    page.click(f"{FORWARD}[data-fold*='scan']")  # a loop has what runs in it
    inside = page.locator("#graph .node:has(rect.forward)", has_text="sigmoid").first
    inside.hover()
    assert "sigmoid" in page.inner_text("#tip") and "f32[64,128]" in page.inner_text("#tip")
    assert page.locator("#graph .edge.on").count() >= 2
    inside.click()
    until(page, COMPUTED)
    assert page.evaluate("probes.apart()") == []


def test_a_long_program_without_modules_opens_folded(opened: Callable[[str], Any]) -> None:
    page = opened("chain")
    assert page.evaluate("CALL.stages[0][1]") > 3000
    assert elements(page) < MOST_ELEMENTS
    page.locator("#graph .cell").first.click()
    assert elements(page) < 4000
    assert page.evaluate("probes.apart()") == []

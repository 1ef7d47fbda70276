"""The report in a browser: clicks and keys answer, all decisions are there, nothing is loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import frontend as torch
from frontend import nn
from graphc.debug.decisions import decisions
from graphc.ir.nodes import Graph
from tests.debug.browser.waiting import until

OPENED = "!document.querySelector('#decided').textContent.includes('opening')"


@pytest.mark.parametrize("name", ["cnn", "transformer", "lstm", "resnet18", "gpt12"])
def test_the_page_opens_and_answers(
    name: str, opened: Callable[[str], Any], written: Callable[[str], tuple[Path, Graph]]
) -> None:
    page = opened(name)
    assert written(name)[0].stat().st_size < 600_000
    assert page.locator("#timeline rect[data-step]").count() > 5
    _selects(page)
    _filters(page)
    _steps_through_passes(page)
    _shows_texts(page)
    page.emulate_media(color_scheme="dark")
    page.emulate_media(media="print")
    assert page.locator("#filter").is_hidden()
    assert page.locator("img, i > i, script").count() == 1  # names are text: our one script


def _selects(page: Any) -> None:
    """A chip, a row, a box over time and the keys choose what the side panel is about."""
    page.click("#modules .chip >> nth=2")
    chip = page.get_attribute("#modules .chip >> nth=2", "data-step")
    assert f"step {chip}" in page.inner_text("#side h2")
    page.click("#launches tr[data-step] >> nth=1")
    row = page.get_attribute("#launches tr[data-step] >> nth=1", "data-step")
    assert f"step {row}" in page.inner_text("#side h2") and page.url.endswith(f"#{row}")
    before = page.inner_text("#side h2")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#side h2") != before
    page.click("#source .hot >> nth=0")
    assert ":" in page.input_value("#filter")
    page.hover("#modules .chip >> nth=0")
    assert "µs" in page.inner_text("#tip")


def _filters(page: Any) -> None:
    page.fill("#filter", "no such thing")
    assert page.locator("#launches tr[data-step]").count() == 0
    page.keyboard.press("Escape")
    assert page.locator("#launches tr[data-step]").count() > 2
    page.fill("#ledgerFilter", "not fused")
    until(page, OPENED)
    kinds = page.locator("#ledger td:first-child").all_inner_texts()
    assert kinds and all("not fused" in kind for kind in kinds)
    page.click("#launches th button >> nth=0")
    page.click("#launches th button >> nth=1")
    assert "▾" in page.inner_text("#launches th button >> nth=1")


def _steps_through_passes(page: Any) -> None:
    page.click("#passes button >> nth=0")
    first = page.inner_text("#changes")
    page.keyboard.press("]")
    assert page.inner_text("#changes") != first
    assert page.locator("#changes .new").count() + page.locator("#changes .gone").count() > 0


def _shows_texts(page: Any) -> None:
    page.click("#launches tr[data-step] >> nth=0")  # most to win: all its texts are there
    # (Of a text that is long the head alone is there.)
    signs = ("graph ", "nest ", "kernel ", "define ", ".text")
    for key, sign in zip("12345", signs, strict=True):
        page.keyboard.press(key)
        assert sign in page.inner_text("#text")


@pytest.mark.parametrize("name", ["resnet18", "gpt12"])
def test_every_decision_of_a_large_graph_is_shown(
    name: str, opened: Callable[[str], Any], written: Callable[[str], tuple[Path, Graph]]
) -> None:
    expected = Counter(each.kind for each in decisions(written(name)[1], threads=2))
    page = opened(name)
    for kind, count in expected.items():
        page.click(f"#kinds button[data-kind='{kind}']")
        until(page, OPENED)
        rows = (
            "(kind) => grouped(decisionsOf(kind, () => null)).reduce((n, g) => n + g.all.length, 0)"
        )
        assert page.evaluate(rows, kind) == count
        assert page.locator("#ledger tr").count() > 1
    page.click("#kinds button[data-kind='']")
    assert page.inner_text("#decided") == f"{expected.total():,} of {expected.total():,} decisions"
    assert "not fused" in page.inner_text("#ledger tr >> nth=1")  # what costs something first
    page.fill("#ledgerFilter", "not fused")
    until(page, OPENED)
    assert page.inner_text("#decided").startswith(f"{expected['not fused']:,} of ")
    page.click("#ledger tr[data-alike] >> nth=0")  # decided alike in several layers: each is told
    assert page.locator("#ledger tr.inside").count() > 1


def test_a_launch_shows_what_was_decided_about_it(opened: Callable[[str], Any]) -> None:
    page = opened("gpt12")
    # Which launches stand first is a matter of times, so the one that is opened is chosen by what
    # was decided about it.
    kinds = ["fused", "not fused", "strategy", "threads", "kept"]
    until(page, f"{kinds}.every((kind) => decisionsOf(kind, () => null))")
    listed = "[...document.querySelectorAll('#launches tr[data-step]')].map((r) => +r.dataset.step)"
    about = "decisionsOf(kind, () => null).some((d) => d.steps.includes(n))"
    step = page.evaluate(f"{listed}.find((n) => {kinds}.every((kind) => {about}))")
    page.click(f"#launches tr[data-step='{step}']")
    until(page, "document.querySelector('#why')?.textContent.includes('kept')")  # loaded by kind
    told = page.inner_text("#why")
    assert {*kinds} <= {text.split("  ")[0] for text in page.locator("#why b").all_inner_texts()}
    assert "cost of" in told
    page.click("#rewritten summary")
    assert "=>" in page.inner_text("#rewritten")


def test_a_forward_and_its_backward_are_two_calls_of_one_page(browser: Any, tmp_path: Path) -> None:
    html = tmp_path / "pair.html"
    torch.compile(nn.Linear(3, 2), threads=1).report(html, torch.ones(4, 3), seconds=1e-2)
    page = browser.new_page()
    page.goto(html.as_uri())
    page.wait_for_selector("body[data-ready]")
    page.wait_for_selector("#graphSvg")
    assert page.inner_text("#title") == "Linear_forward"
    page.click("[data-call='1']")
    assert page.inner_text("#title") == "Linear_backward"
    until(page, "document.querySelector('#graph').textContent.includes('backward')")
    page.close()

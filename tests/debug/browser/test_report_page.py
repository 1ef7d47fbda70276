"""Reports in a real headless Chromium: they open, clicks and keys answer, nothing is said in the
console and nothing is asked for. Skipped without playwright (extra `browser`) and a Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import frontend as torch
from frontend import nn
from graphc.debug.load import loaded_calls
from graphc.debug.report.page import page as report_page
from graphc.debug.traced import DrawnInput

api = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("there is no Chromium", allow_module_level=True)

ROOT = Path(__file__).parents[3]
HOSTILE = "</script><img src=x onerror=alert(1)>"
LOOP = f"""
import frontend as torch
from frontend import nn, optim

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(16, 128), nn.Linear(128, 4)

    def forward(self, x):
        return self.head(self.lstm(x)[0][-1])  # {HOSTILE}

net = Net()
optimizer = optim.Adam(net.parameters())

def step(x, y):
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""
RESNET = f"""
import sys
import frontend as torch
from frontend import nn, optim

sys.path.insert(0, {str(ROOT / "benchmarks")!r})
import workload_models

net = workload_models.resnet18(torch)
optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

def step(x, y):
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""
STEPS = {
    "cnn": (str(ROOT / "examples" / "digits.py") + ":cnn_step", []),
    "transformer": (str(ROOT / "examples" / "transformer.py") + ":transformer_step", []),
    "lstm": (LOOP, ["f32[12,64,16]", "i64[64]<4"]),
    "resnet18": (RESNET, ["f32[2,3,32,32]", "i64[2]<10"]),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The report of a step, as a file."""

    def write(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        what, inputs = STEPS[name]
        if "\n" in what:
            (folder / "st<i>ep.py").write_text(what, "utf-8")
            what = f"{folder / 'st<i>ep.py'}:step"
        html = folder / "report.html"
        with loaded_calls(what, [DrawnInput.parse(text) for text in inputs], None, 2) as calls:
            html.write_text(report_page(calls, 0.05), "utf-8")
        return html

    return write


@pytest.mark.parametrize("name", STEPS)
def test_the_page_opens_and_answers(
    name: str, browser: Any, written: Callable[[str], Path]
) -> None:
    html = written(name)
    assert html.stat().st_size < 600_000
    page = browser.new_page(viewport={"width": 1600, "height": 1000})
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(html.as_uri())
    page.wait_for_selector("body[data-ready]", timeout=30_000)
    assert page.locator("#timeline rect[data-step]").count() > 5
    _selects(page)
    _filters(page)
    _steps_through_passes(page)
    _shows_texts(page)
    page.emulate_media(color_scheme="dark")
    page.emulate_media(media="print")
    assert page.locator("#filter").is_hidden()
    assert page.locator("img, i > i, script").count() == 1  # names are text: our one script
    assert said == [] and [url for url in asked if not url.startswith("data:")] == [html.as_uri()]
    page.close()


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
    for key, sign in (("1", "graph "), ("2", "kernel "), ("3", "define "), ("4", "ret")):
        page.keyboard.press(key)
        assert sign in page.inner_text("#text")


def test_a_forward_and_its_backward_are_two_calls_of_one_page(browser: Any, tmp_path: Path) -> None:
    html = tmp_path / "pair.html"
    torch.compile(nn.Linear(3, 2), threads=1).report(html, torch.ones(4, 3), seconds=1e-2)
    page = browser.new_page()
    page.goto(html.as_uri())
    page.wait_for_selector("body[data-ready]")
    assert page.inner_text("#title") == "Linear_forward"
    page.click("[data-call='1']")
    assert page.inner_text("#title") == "Linear_backward"
    page.close()

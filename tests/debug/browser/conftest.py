"""Reports in a headless Chromium. Skipped without playwright (extra `browser`) and a Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graphc.debug.load import loaded_calls
from graphc.debug.report.page import page as report_page
from graphc.debug.traced import DrawnInput
from graphc.ir.nodes import Graph

ROOT = Path(__file__).parents[3]
PROBES = (Path(__file__).parent / "probes.js").read_text("utf-8")
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
MODELS = f"""
import sys
import frontend as torch
from frontend import nn, optim

sys.path.insert(0, {str(ROOT / "benchmarks")!r})
import workload_models
"""
RESNET = f"""{MODELS}
net = workload_models.resnet18(torch)
optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

def step(x, y):
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""
GPT = f"""{MODELS}
gpt = workload_models.gpt(torch, length=32, width=64, layers=12)
optimizer = optim.AdamW(gpt.parameters())

def step(x, y):
    loss = nn.functional.cross_entropy(gpt(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""
CHAIN = """
def step(x):
    for _ in range(1000):
        x = (x + 1).sin()
        x = x * x
    return x
"""
STEPS = {
    "cnn": (str(ROOT / "examples" / "digits.py") + ":cnn_step", []),
    "transformer": (str(ROOT / "examples" / "transformer.py") + ":transformer_step", []),
    "lstm": (LOOP, ["f32[12,64,16]", "i64[64]<4"]),
    "resnet18": (RESNET, ["f32[2,3,32,32]", "i64[2]<10"]),
    "gpt12": (GPT, ["i64[4,32]<65", "i64[4,32]<65"]),
    "chain": (CHAIN, ["f32[4]"]),
}


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no Chromium")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Graph]]:
    """The report of a step, as a file, and the graph that it is about."""
    reports: dict[str, tuple[Path, Graph]] = {}

    def write(name: str) -> tuple[Path, Graph]:
        if name in reports:
            return reports[name]
        folder = tmp_path_factory.mktemp(name)
        what, inputs = STEPS[name]
        if "\n" in what:
            (folder / "st<i>ep.py").write_text(what, "utf-8")
            what = f"{folder / 'st<i>ep.py'}:step"
        html = folder / "report.html"
        with loaded_calls(what, [DrawnInput.parse(text) for text in inputs], None, 2) as calls:
            html.write_text(report_page(calls, 0.05), "utf-8")
            reports[name] = html, calls[0].graph
        return reports[name]

    return write


@pytest.fixture
def opened(
    browser: Any, written: Callable[[str], tuple[Path, Graph]]
) -> Iterator[Callable[[str], Any]]:
    """The page of a step's report, its graph drawn; nothing may be said in the console by then and
    by the end of the test, and nothing but the page asked for."""
    said: list[str] = []
    asked: list[str] = []
    pages = []

    def open_page(name: str) -> Any:
        html, _ = written(name)
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(html.as_uri())
        page.wait_for_selector("body[data-ready]", timeout=30_000)
        page.wait_for_selector("#graphSvg", timeout=30_000)
        page.evaluate(PROBES)
        pages.append((page, html.as_uri()))
        return page

    yield open_page
    for page, _ in pages:
        page.close()
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [uri for _, uri in pages]

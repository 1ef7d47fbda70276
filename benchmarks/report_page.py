"""How large the report of a large training step is, and how long it takes to write and to open.

usage: python benchmarks/report_page.py [--layers 12] [--rounds 5]

in : nothing; a GPT of so many blocks with AdamW, and a ResNet-18 with SGD
out: a table: nodes as traced and after passes, decisions, bytes of the page, seconds to write it,
     seconds in Chromium until the page and its picture of the graph stand (the median), the
     elements of the picture, and seconds until a block is unfolded

It needs the extra `browser` and a `chromium` on the path.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import workload_models

import frontend as torch
from frontend import nn, optim

BLOCKS = {"gpt": "gpt.blocks.3", "resnet18": "net.5"}


def _gpt(layers: int) -> tuple[Any, list[Any]]:
    gpt = workload_models.gpt(torch, length=64, width=128, layers=layers)
    optimizer = optim.AdamW(gpt.parameters())

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(gpt(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, [torch.zeros(4, 64, dtype=torch.int64)] * 2


def _resnet18() -> tuple[Any, list[Any]]:
    net = workload_models.resnet18(torch)
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, [torch.zeros(2, 3, 32, 32), torch.zeros(2, dtype=torch.int64)]


def _written(step: Any, arguments: list[Any], html: Path) -> float:
    """Writes the report of a step that has been compiled; the seconds that it took."""
    compiled = torch.compile(step, threads=1, fullgraph=True)
    compiled(*arguments)
    begun = time.perf_counter()
    compiled.report(html, *arguments, seconds=0.05)
    return time.perf_counter() - begun


def _opened(browser: Any, html: Path, block: str) -> tuple[float, float, dict[str, Any]]:
    """Seconds until the picture stands, seconds to unfold a block, and what the page tells."""
    page = browser.new_page(viewport={"width": 1600, "height": 1000})
    begun = time.perf_counter()
    page.goto(html.as_uri())
    page.wait_for_selector("#graphSvg", timeout=120_000)
    stands = time.perf_counter() - begun
    told = page.evaluate(
        "({ stages: CALL.stages, ledger: CALL.ledger, "
        "elements: document.querySelectorAll('#graph *').length })"
    )
    unfolds = page.evaluate(
        "(key) => { const begun = performance.now(); toggleFold(key); "
        "document.body.getBoundingClientRect(); return performance.now() - begun; }",
        block,
    )
    page.close()
    return stands, unfolds / 1000, told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12, help="blocks of the GPT (12)")
    parser.add_argument("--rounds", type=int, default=5, help="times each page is opened (5)")
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("there is no chromium on the path")
    print("| step | nodes | decisions | page | written | opens | elements | unfolds |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        steps = {"gpt": _gpt(arguments.layers), "resnet18": _resnet18()}
        for name, (step, inputs) in steps.items():
            html = Path(folder) / f"{name}.html"
            written = _written(step, inputs, html)
            rounds = [_opened(browser, html, BLOCKS[name]) for _ in range(arguments.rounds)]
            told = rounds[0][2]
            opens, unfolds = (statistics.median(r[i] for r in rounds) for i in (0, 1))
            print(
                f"| {name} | {told['stages'][0][1]:,} → {told['stages'][-1][1]:,} "
                f"| {sum(told['ledger'].values()):,} | {html.stat().st_size // 1000:,} kB "
                f"| {written:.1f} s | {opens:.2f} s | {told['elements']:,} | {unfolds:.2f} s |"
            )
        browser.close()


if __name__ == "__main__":
    main()

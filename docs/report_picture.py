"""The picture of a report in the README: docs/report.png.

    python docs/report_picture.py

writes the report about the convolutional network of examples/digits.py, opens it in Chromium and
takes the picture of its graph and panel. It needs the extra `browser` and a `chromium` on the path.
"""

from __future__ import annotations

import shutil
import struct
import sys
import tempfile
import zlib
from pathlib import Path

from graphc.debug.cli import main as graphc

ROOT = Path(__file__).resolve().parent.parent
STEP, PICTURE = "examples/digits.py:cnn_step", ROOT / "docs" / "report.png"
WIDTH, HEIGHT = 1200, 520
MOST_BYTES = 150_000


def take(report: Path, picture: Path) -> None:
    """The page's graph and panel, the first convolution's gradient chosen. Raises SystemExit
    without a browser, or where the picture is too large for a README."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise SystemExit("pip install 'graphc[browser]' first") from error
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("there is no chromium on the path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.goto(report.as_uri())
        page.wait_for_selector("#graphSvg", timeout=60_000)
        page.locator("#graphSection .bar2").first.evaluate("(bar) => bar.scrollIntoView()")
        page.locator("#graph .cell", has_text="conv").nth(1).click()
        page.locator("#graph .node", has_text="conv").first.click()
        page.mouse.move(0, 0)
        page.wait_for_timeout(500)
        picture.write_bytes(repacked(page.screenshot()))
        browser.close()
    if picture.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{picture} has {picture.stat().st_size:,} bytes, over {MOST_BYTES:,}")


def repacked(png: bytes) -> bytes:
    """The same picture, its pixels packed as small as deflate can: Chromium packs for speed."""
    parts, data, place = [png[:8]], b"", 8
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        kind, chunk = png[place + 4 : place + 8], png[place : place + 12 + length]
        place += 12 + length
        if kind == b"IDAT":
            data += chunk[8:-4]
            continue
        if kind == b"IEND":
            packed = zlib.compress(zlib.decompress(data), 9)
            check = struct.pack(">I", zlib.crc32(b"IDAT" + packed))
            parts.append(struct.pack(">I", len(packed)) + b"IDAT" + packed + check)
        parts.append(chunk)
    return b"".join(parts)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        code = graphc(["report", str(ROOT / STEP), "-o", str(report), "--threads", "1"])
        if code:
            sys.exit(code)
        take(report, PICTURE)
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

"""One HTML file that runs a function in a browser: its module, its state, and rows to call it on.

in : a source, and an array for each argument
out: a page; or the script of its live part, for another page

The page has two modules: with `relaxed_madd`, for machines where that rounds once, which the page
asks, and one that computes what rounds once. Nothing is loaded besides.
"""

from __future__ import annotations

import base64
import html
import re
import zlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from graphc.build.built_programs import BuiltPrograms
from graphc.build.built_source import Array, ObjectSource
from graphc.build.javascript import calls_text, json_text, loader, tables_text, wasm_module
from graphc.build.object_file import programs_of
from graphc.build.proof import CALLS, data_of, proven
from graphc.build.state_layout import bytes_of, layout_for, state_file
from graphc.build.wasm_module import probe
from graphc.codegen.target import named
from graphc.errors import ArgumentError
from graphc.ir.dims import Extent, symbol_of
from graphc.records import record

MODULES = {"relaxed": "wasm32+relaxed", "computed": "wasm32"}


@record
class LivePart:
    """`script` fills the element `live` of a page, and leaves the session there as its property of
    that name; `style` is for what stands in it."""

    script: str
    style: str
    programs: BuiltPrograms


def page_text(
    name: str, source: ObjectSource, calls: int, data: Sequence[Any] | None = None
) -> tuple[str, BuiltPrograms]:
    """The page, and its programs. Raises ArgumentError for data that do not fit."""
    part = live_part(name, source, calls, data)
    text = (files("graphc.build") / "page.html").read_text("utf-8")
    filled = {"TITLE": html.escape(name), "STYLE": part.style, "SCRIPT": part.script}
    text = re.sub(f"@({'|'.join(filled)})@", lambda match: filled[match[1]], text)
    return text, part.programs


def live_part(
    name: str, source: ObjectSource, calls: int = CALLS, data: Sequence[Any] | None = None
) -> LivePart:
    """What a page runs. `data`: an array for each argument, rows of which are batches."""
    targets = {kind: named(target) for kind, target in MODULES.items()}
    every = {kind: programs_of(source, target) for kind, target in targets.items()}
    built = every["computed"]
    rows = source.arrays if data is None else _fitting(source, built, data)
    layouts = {kind: layout_for(source, each) for kind, each in every.items()}
    layout = layouts["computed"]
    modules = {
        kind: wasm_module(name, source, every[kind], layouts[kind], target)
        for kind, target in targets.items()
    }
    proof = proven(source, built, calls)
    tables = ",\n".join(
        f"{kind}: {tables_text(name, source, every[kind], layouts[kind], module.data_end)}"
        for kind, module in modules.items()
    )
    parts = {
        "probe": probe(), "state": state_file(layout), "proof": data_of(proof, layout),
        "data": b"".join(map(bytes_of, rows)),
        **{kind: module.code for kind, module in modules.items()},
    }  # fmt: skip
    settings = json_text(_settings(source, built, rows))[:-1] + f', "calls": {calls_text(proof)}}}'
    folder = files("graphc.build")
    script = "\n".join(
        [
            "(() => {", loader(), (folder / "live.js").read_text("utf-8"),
            f"const TABLES = {{{tables}}};",
            f"const PARTS = {json_text({kind: packed(part) for kind, part in parts.items()})};",
            'const root = document.getElementById("live");',
            f"live(root, TABLES, PARTS, {settings}).then((session) => {{ root.live = session; }});",
            "})();",
        ]
    )  # fmt: skip
    return LivePart(script, (folder / "live.css").read_text("utf-8"), built)


def packed(content: bytes) -> str:
    """Bytes deflated, in base64."""
    return base64.b64encode(zlib.compress(content, 9)).decode("ascii")


def _fitting(source: ObjectSource, built: BuiltPrograms, data: Sequence[Any]) -> tuple[Array, ...]:
    """The data, if they are rows of the arguments."""
    arrays = tuple(np.asarray(array) for array in data)
    if len(arrays) != len(source.arrays):
        raise ArgumentError(f"data are {len(source.arrays)} arrays, not {len(arrays)}")
    for label, array, example in zip(source.arguments, arrays, source.arrays):
        if array.dtype != example.dtype or array.shape[1:] != example.shape[1:]:
            raise ArgumentError(
                f"data for {label} are {array.dtype}{list(array.shape)}, of which no rows are "
                f"like {example.dtype}{list(example.shape)}"
            )
    if _size(source, built) is None and any(
        len(array) < len(example) for array, example in zip(arrays, source.arrays)
    ):
        raise ArgumentError("data are fewer rows than a call takes")
    if not all(array.ndim and len(array) == len(arrays[0]) > 0 for array in arrays):
        raise ArgumentError("data for all arguments have equally many rows, one at least")
    return arrays


def _size(source: ObjectSource, built: BuiltPrograms) -> str | None:
    """The open size that is the first extent of all arguments."""
    firsts: set[Extent | None] = {
        type.shape[0] if type.shape else None for type in built.argument_types.values()
    }
    first = firsts.pop() if len(firsts) == 1 else None
    symbol = None if first is None else symbol_of(first)
    return None if symbol is None else symbol.name


def _settings(
    source: ObjectSource, built: BuiltPrograms, rows: Sequence[Array]
) -> dict[str, object]:
    """How the page cuts the rows into batches: the size that counts them, and where none does, the
    example's."""
    size = _size(source, built)
    symbols = {symbol.name: symbol for symbol in source.sizes}
    examples = {len(array) if array.ndim else 0 for array in source.arrays}
    cuts = len(examples) == 1 and 0 not in examples and all(array.ndim for array in rows)
    count = len(rows[0]) if cuts else 0
    batch = int(source.example[size]) if size else max(examples, default=0)
    most = symbols[size].most if size else None
    return {
        "size": size, "cuts": cuts, "rows": count, "batch": max(1, min(batch, count)),
        "least": symbols[size].least if size else 0,
        "most": count if most is None else min(count, most),
        "counts": [array.size for array in rows],
        "widths": [array.size // count if count else 0 for array in rows],
        "sizes": {name: source.example[name] for name in symbols},
        "numbers": {name: source.example[name] for name in source.floats},
    }  # fmt: skip

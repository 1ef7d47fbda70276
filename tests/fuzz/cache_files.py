"""Damaged files in the cache of compiled code: what is read is what was written, or nothing.

A case is a list of damages, done one after the other to a folder with the files of three compiled
graphs. Then every file that is still found has its old content, and compiling gives the same bits.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

import graphc
from graphc.codegen.cache.object_cache import MAGIC, ObjectCache
from tests.fuzz.frame import Broken, Fuzzer, without_parts

Damage = tuple[str, int, int]  # what, which file, a number
KINDS = (
    "cut", "flip", "drop", "double", "other content", "other name", "empty", "noise", "link",
    "folder", "pipe", "writable", "open folder", "deep header", "header of numbers", "unreadable",
)  # fmt: skip

TEXTS = [
    f"graph g(%x: f32[3]) {{\n  %1 = {op}(%x) : f32[3]\n  return %1\n}}"
    for op in ("exp", "neg", "tanh")
]
X = np.array([0.5, -1.0, 2.0], np.float32)


def draw(random: np.random.Generator, size: int) -> list[Damage]:
    kinds = [KINDS[int(k)] for k in random.integers(len(KINDS), size=size)]
    return [(kind, int(random.integers(1000)), int(random.integers(1 << 30))) for kind in kinds]


@functools.cache
def whole() -> tuple[Path, dict[str, bytes], list[bytes]]:
    """A folder with files, their content by symbol, and what the graphs compute."""
    folder = Path(tempfile.mkdtemp(prefix="graphc-fuzz-"))
    atexit.register(shutil.rmtree, folder, True)
    cache = folder / "cache"
    with using(cache):
        results = [computed(text) for text in TEXTS]
    store = ObjectCache(cache, 1 << 30)
    contents = {kept.symbol: store.get(kept.symbol) or b"" for kept in store.entries()}
    return cache, contents, results


@contextmanager
def using(folder: Path) -> Iterator[None]:
    """Compile with the cache in this folder."""
    before = os.environ.get("GRAPHC_CACHE")
    os.environ["GRAPHC_CACHE"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["GRAPHC_CACHE"]
        else:
            os.environ["GRAPHC_CACHE"] = before


def computed(text: str) -> bytes:
    return np.asarray(graphc.compile(graphc.parse(text))(X)[0]).tobytes()


def damage(cache: Path, one: Damage) -> None:
    """Do it to a file of the folder; nothing where it is gone already."""
    kind, index, number = one
    paths = sorted(cache.glob("??/*.object"))
    if not paths:
        return
    path, other = paths[index % len(paths)], paths[number % len(paths)]
    if all(file.is_file() and not file.is_symlink() for file in (path, other)):
        with suppress(OSError):  # an earlier damage may have made it unreadable
            _damage(path, other, kind, number)


def _damage(path: Path, other: Path, kind: str, number: int) -> None:
    data = path.read_bytes() or b"\0"
    at = number % max(len(data), 1)
    changed = {
        "cut": data[:at],
        "flip": data[:at] + bytes([data[at] ^ 1 << number % 8]) + data[at + 1 :],
        "drop": data[:at] + data[at + 1 + number % 9 :],
        "double": data[:at] + data[at // 2 :],
        "empty": b"",
        "noise": np.random.default_rng(number).bytes(number % 500),
        "deep header": MAGIC + b"[" * (number % 300_000) + b"\n" + data,
        "header of numbers": MAGIC + b'{"symbol": ' + b"1" * (number % 9_000) + b"}\n" + data,
    }
    if kind in changed:
        path.write_bytes(changed[kind])
    elif kind == "other content":
        path.write_bytes(other.read_bytes())
    elif kind == "other name":
        path.replace(other)
    elif kind == "writable":
        path.chmod(0o666)
    elif kind == "unreadable":
        path.chmod(0)
    elif kind == "open folder":
        path.parent.chmod(0o777)
    else:
        path.unlink()
        {"link": lambda: path.symlink_to(other), "folder": path.mkdir,
         "pipe": lambda: os.mkfifo(path)}[kind]()  # fmt: skip


def check(case: list[Damage]) -> str:
    source, contents, results = whole()
    with tempfile.TemporaryDirectory(prefix="graphc-fuzz-") as name, _quiet():
        cache = Path(name) / "cache"
        shutil.copytree(source, cache)
        cache.chmod(0o700)
        for one in case:
            damage(cache, one)
        opened = os.listdir("/proc/self/fd")
        store = ObjectCache(cache, 1 << 30)
        store.entries()
        read = {symbol: store.get(symbol) for symbol in contents}
        wrong = [symbol for symbol, data in read.items() if data not in (None, contents[symbol])]
        if wrong:
            raise Broken(f"{wrong} are read with another content")
        with using(cache):
            if [computed(text) for text in TEXTS] != results:
                raise Broken("the results differ")
        store.shrink()
        if os.listdir("/proc/self/fd") != opened:
            raise Broken("a file was left open")
    return "all files read" if None not in read.values() else "files missing"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings about each damaged file."""
    log = logging.getLogger("graphc.cache")
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = False


def program(case: list[Damage]) -> str:
    return f"from tests.fuzz import cache_files\ncache_files.check({case!r})"


FUZZER = Fuzzer("cache_files", draw, check, program, without_parts)

"""Object code kept on disk between processes.

One file per kernel, named by the kernel's symbol (a hash of its LLVM IR, target and settings):

    graphc-object 1
    {"symbol": …, "sha256": …, "code": …, "target": …, …}
    object code

A file appears whole or not at all (it is written next to its final path and renamed), so writers
may race and may be killed. What is read is checked against its own hash; a file that was cut short,
renamed or damaged is removed and compiled again, never loaded. The files used longest ago go first
when the folder grows past its limit.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphc.config import cache_bytes, cache_folder

MAGIC = b"graphc-object 1\n"
SUFFIX = ".object"
ABANDONED = 3600.0  # seconds after which an unfinished file is taken for a killed writer's
SCAN_EVERY = 64  # writes between two looks at the folder's size
_log = logging.getLogger("graphc.cache")


@dataclass(frozen=True, slots=True)
class Kept:
    """One file of the cache: what its header says, its size, and when it was last used (seconds
    since 1970)."""

    symbol: str
    facts: Mapping[str, Any]
    nbytes: int
    used: float


class ObjectCache:
    """The files of one folder. An unwritable or full disk costs a warning in the log and the time
    to compile, not the program."""

    def __init__(self, folder: Path, limit: int):
        self.folder = folder
        self.limit = limit
        self._writes = 0

    def get(self, symbol: str) -> bytes | None:
        """The object code of `symbol`, None where there is none to be trusted."""
        path = self._path(symbol)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("cannot read %s: %s", path, error)
            return None
        header = _header(data)
        if header is None or header[0].get("symbol") != symbol:
            self._discard(path, "is no object of this cache")
            return None
        facts, payload = header
        if hashlib.sha256(payload).hexdigest() != facts.get("sha256"):
            self._discard(path, "is damaged")
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # the time of last use
        return payload

    def put(self, symbol: str, object: bytes, facts: Mapping[str, Any]) -> None:
        """Keep object code, with facts that tell people what it is."""
        header = {"symbol": symbol, "sha256": hashlib.sha256(object).hexdigest(), **facts}
        data = MAGIC + json.dumps(header).encode() + b"\n" + object
        try:
            self._write(self._path(symbol), data)
        except OSError as error:
            _log.warning("cannot keep compiled code in %s: %s", self.folder, error)
            return
        if self._writes % SCAN_EVERY == 0:
            self.shrink()
        self._writes += 1

    def entries(self) -> list[Kept]:
        """All files that can be read, latest used first."""
        readable = []
        for path in self._files():
            with contextlib.suppress(OSError):
                status = path.stat()
                with path.open("rb") as file:
                    header = _header(file.read(1 << 16))
                if header is not None:
                    facts = header[0]
                    readable.append(
                        Kept(str(facts.get("symbol")), facts, status.st_size, status.st_mtime)
                    )
        return sorted(readable, key=lambda kept: kept.used, reverse=True)

    def clear(self) -> int:
        """Remove everything; how many files there were."""
        files = list(self._files())
        for path in files:
            path.unlink(missing_ok=True)
        return len(files)

    def shrink(self) -> None:
        """Remove what killed writers left, and the longest unused files beyond the limit."""
        sizes: list[tuple[float, int, Path]] = []
        for path in self.folder.glob("??/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                if path.suffix == SUFFIX:
                    sizes.append((status.st_mtime, status.st_size, path))
                elif status.st_mtime < time.time() - ABANDONED:
                    path.unlink(missing_ok=True)
        excess = sum(size for _, size, _ in sizes) - self.limit
        for _, size, path in sorted(sizes):
            if excess <= 0:
                break
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
                excess -= size

    def _path(self, symbol: str) -> Path:
        name = symbol.removeprefix("kernel_")
        return self.folder / name[:2] / f"{name}{SUFFIX}"

    def _files(self) -> Iterator[Path]:
        return self.folder.glob(f"??/*{SUFFIX}")

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise

    def _discard(self, path: Path, why: str) -> None:
        _log.warning("%s %s and is compiled again", path, why)
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _header(data: bytes) -> tuple[dict[str, Any], bytes] | None:
    """A file's facts and what follows them; None where it does not begin like one."""
    if not data.startswith(MAGIC):
        return None
    line, newline, payload = data[len(MAGIC) :].partition(b"\n")
    try:
        facts = json.loads(line)
    except ValueError:
        return None
    return (facts, payload) if newline and isinstance(facts, dict) else None


def user_cache() -> ObjectCache | None:
    """The cache of this user, None where it is off."""
    folder = cache_folder()
    return None if folder is None else _cache(folder, cache_bytes())


@functools.cache
def _cache(folder: Path, limit: int) -> ObjectCache:
    return ObjectCache(folder, limit)

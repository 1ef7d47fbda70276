"""Object code kept on disk between processes.

One file per kernel, named by the kernel's symbol (a hash of its LLVM IR, target and settings):

    graphc-object 1
    {"symbol": …, "sha256": …, "code": …, "target": …, …}
    object code

A file appears whole or not at all (it is written next to its final path and renamed), so writers
may race and may be killed. What is read is checked against its own hash; a file that was cut short,
renamed or damaged is removed and compiled again, never loaded. A hash says nothing of who wrote it:
the folder and its files are used only if they belong to the user and nobody else can write them.
The files used longest ago go first when the folder grows past its limit.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from graphc.codegen.cache.private_files import NotPrivateError, check_folder, private_bytes
from graphc.config import cache_bytes, cache_folder
from graphc.records import record

MAGIC = b"graphc-object 1\n"
SUFFIX = ".object"
ABANDONED = 3600.0  # seconds after which an unfinished file is taken for a killed writer's
SCAN_EVERY = 64  # writes between two looks at the folder's size
_log = logging.getLogger("graphc.cache")


@record
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
        self._complained = False

    def get(self, symbol: str) -> bytes | None:
        """The object code of `symbol`, None where there is none to be trusted."""
        path = self._path(symbol)
        try:
            self._check_folders(path)
            data = private_bytes(path)
        except FileNotFoundError:
            return None
        except NotPrivateError as error:
            self._complain(error)
            return None
        except OSError as error:
            self._complain(error)
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
            self._complain(error)
            return
        if self._writes % SCAN_EVERY == 0:
            self.shrink()
        self._writes += 1

    def entries(self) -> list[Kept]:
        """All files that can be read, latest used first."""
        readable = []
        for path in self._files():
            with contextlib.suppress(OSError):
                status = path.lstat()
                header = _header(private_bytes(path, 1 << 16))
                if header is not None:
                    facts = header[0]
                    readable.append(
                        Kept(str(facts.get("symbol")), facts, status.st_size, status.st_mtime)
                    )
        return sorted(readable, key=lambda kept: kept.used, reverse=True)

    def clear(self) -> int:
        """Remove everything; how many files there were."""
        removed = 0
        for path in self._files():
            with contextlib.suppress(OSError):
                path.unlink()
                removed += 1
        return removed

    def shrink(self) -> None:
        """Remove what killed writers left, and the longest unused files beyond the limit."""
        sizes: list[tuple[float, int, Path]] = []
        for path in self.folder.glob("??/*"):
            with contextlib.suppress(OSError):
                status = path.lstat()
                if not stat.S_ISREG(status.st_mode):
                    continue
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

    def _check_folders(self, path: Path) -> None:
        check_folder(self.folder)
        check_folder(path.parent)

    def _complain(self, why: OSError) -> None:
        """Say why the cache is not used: once, not for every kernel."""
        if not self._complained:
            self._complained = True
            _log.warning("compiled code is not taken from or kept in %s: %s", self.folder, why)

    def _write(self, path: Path, data: bytes) -> None:
        try:
            self._check_folders(path)
        except FileNotFoundError:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            for folder in (self.folder, path.parent):
                folder.mkdir(mode=0o700, exist_ok=True)
                check_folder(folder)
        temporary = f"{path}.{os.urandom(8).hex()}.part"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(temporary, flags, 0o600)
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
    except (ValueError, RecursionError):
        return None
    return (facts, payload) if newline and isinstance(facts, dict) else None


def user_cache() -> ObjectCache | None:
    """The cache of this user, None where it is off."""
    folder = cache_folder()
    return None if folder is None else _cache(folder, cache_bytes())


@functools.cache
def _cache(folder: Path, limit: int) -> ObjectCache:
    return ObjectCache(folder, limit)

"""Files that commands write: whole or not at all, and one clear error where they cannot be."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from graphc.errors import ArgumentError


def check_writable(path: Path | str, what: str) -> None:
    """Raises ArgumentError where a file cannot be written as far as that can be known before: asked
    before long work, so that none is lost."""
    chosen = Path(path)
    if chosen.is_dir():
        raise ArgumentError(f"cannot write {what}: {chosen} is a folder")
    if not chosen.parent.is_dir():
        raise ArgumentError(f"cannot write {what}: there is no folder {chosen.parent}")
    if not os.access(chosen if chosen.exists() else chosen.parent, os.W_OK):
        raise ArgumentError(f"cannot write {what}: {chosen} may not be written")


def write_file(path: Path | str, content: str | bytes, what: str) -> None:
    """Write a text or bytes; a file that is there is replaced when the new one is whole. Raises
    ArgumentError, which says `what` could not be written and why."""
    chosen = Path(path)
    check_writable(chosen, what)
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        if chosen.exists() and not stat.S_ISREG(chosen.stat().st_mode):
            chosen.write_bytes(data)  # a device or pipe: nothing to be put in its place
            return
        part = chosen.with_name(f".{chosen.name}.{os.getpid()}.part")
        try:
            part.write_bytes(data)
            part.replace(chosen)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ArgumentError(f"cannot write {what}: {error}") from error

"""Files and folders that nobody but this user can have written.

in : a path
out: the content of a file, or why it is not to be trusted

Object code and pickles of the cache are run as they are read, so whoever can write them can do
whatever the user can. What counts is the owner and the permissions of the opened file itself, not
of what stood under its name a moment before.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class NotPrivateError(OSError):
    """A file or folder that somebody else may have written. The message says why."""


def private_bytes(path: Path, count: int = -1) -> bytes:
    """The content of a file, or its first `count` bytes. Raises OSError, and NotPrivateError where
    it is no regular file of this user's that nobody else can write."""
    # A named pipe would wait for a writer, a link may lead anywhere.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:  # that of a folder opens, too, and is no file for Python
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotPrivateError(f"{path} is no regular file")
        _check_owner(path, status)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(count)
    finally:
        os.close(descriptor)


def check_folder(path: Path) -> None:
    """Raises FileNotFoundError where there is no folder, NotPrivateError where it is not this
    user's or others can write in it. A link in place of it may lead to such a folder."""
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise NotPrivateError(f"{path} is no folder")
    _check_owner(path, status)


def _check_owner(path: Path, status: os.stat_result) -> None:
    user = os.geteuid()
    if status.st_uid != user:
        raise NotPrivateError(f"{path} belongs to user {status.st_uid}, not to {user}")
    if status.st_mode & _OTHERS_MAY_WRITE:
        raise NotPrivateError(f"{path} can be written by others: chmod go-w")

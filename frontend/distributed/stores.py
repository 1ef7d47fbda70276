"""Stores of keys and values that processes share before they can talk: PyTorch's
`FileStore`, `HashStore` and `PrefixStore` (`TCPStore` stands in tcp_store).

Keys are texts, values bytes (texts are encoded). `get` waits for a key, `add` counts.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from frontend.distributed.errors import DistStoreError

DEFAULT_TIMEOUT = timedelta(minutes=5)
PAUSE = 0.01  # seconds between two looks at a file, or two attempts to connect


def seconds(timeout: timedelta | float) -> float:
    """A time as a number of seconds."""
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


def as_bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class Store:
    """What all stores do, by one method of theirs: `_call(command, keys and values, wait)` runs a
    command of `COMMANDS` on the table."""

    def __init__(self) -> None:
        self.timeout = DEFAULT_TIMEOUT

    def _call(self, command: str, *items: bytes, timeout: float | None = None) -> list[bytes]:
        raise NotImplementedError

    def set_timeout(self, timeout: timedelta) -> None:
        """How long `get` and `wait` wait."""
        self.timeout = timeout

    def set(self, key: str, value: bytes | str) -> None:
        self._call("set", as_bytes(key), as_bytes(value))

    def get(self, key: str) -> bytes:
        """The value, once there is one. Raises DistStoreError when the time is up."""
        return self._call("get", as_bytes(key), timeout=seconds(self.timeout))[0]

    def add(self, key: str, amount: int) -> int:
        """Add to the number under a key (0 where there is none); the sum."""
        return int(self._call("add", as_bytes(key), str(int(amount)).encode())[0])

    def append(self, key: str, value: bytes | str) -> None:
        self._call("append", as_bytes(key), as_bytes(value))

    def compare_set(self, key: str, expected: bytes | str, desired: bytes | str) -> bytes:
        """Set the value where it is `expected` (or where there is none, and "" is expected); the
        value afterwards."""
        return self._call("compare_set", as_bytes(key), as_bytes(expected), as_bytes(desired))[0]

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        return self._call("check", *map(as_bytes, keys))[0] == b"1"

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys are there. Raises DistStoreError when the time is up."""
        self._call("wait", *map(as_bytes, keys), timeout=seconds(timeout or self.timeout))

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[bytes | str]) -> None:
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def delete_key(self, key: str) -> bool:
        """Whether there was one."""
        return self._call("delete", as_bytes(key))[0] == b"1"

    def num_keys(self) -> int:
        return int(self._call("count")[0])

    def has_extended_api(self) -> bool:
        return True


LENGTH = struct.Struct("<I")


def packed(items: Sequence[bytes]) -> bytes:
    """Items with their number and lengths in front."""
    return LENGTH.pack(len(items)) + b"".join(LENGTH.pack(len(item)) + item for item in items)


def unpacked(content: bytes, at: int = 0) -> tuple[list[bytes], int]:
    """The items at a place of what was packed, and where they end."""
    (count,) = LENGTH.unpack_from(content, at)
    at += LENGTH.size
    items = []
    for _ in range(count):
        (length,) = LENGTH.unpack_from(content, at)
        at += LENGTH.size
        items.append(content[at : at + length])
        at += length
    return items, at


# -- the table and its commands ------------------------------------------------------------------

Table = dict[bytes, bytes]


def _add(table: Table, key: bytes, amount: bytes) -> list[bytes]:
    table[key] = str(int(table.get(key, b"0")) + int(amount)).encode()
    return [table[key]]


def _append(table: Table, key: bytes, value: bytes) -> list[bytes]:
    table[key] = table.get(key, b"") + value
    return []


def _compare_set(table: Table, key: bytes, expected: bytes, desired: bytes) -> list[bytes]:
    if table.get(key, b"") == expected:
        table[key] = desired
    return [table.get(key, expected)]


def _set(table: Table, key: bytes, value: bytes) -> list[bytes]:
    table[key] = value
    return []


COMMANDS: dict[str, Callable[..., list[bytes]]] = {
    "set": _set,
    "get": lambda table, key: [table[key]],
    "add": _add,
    "append": _append,
    "compare_set": _compare_set,
    "check": lambda table, *keys: [b"1" if all(key in table for key in keys) else b"0"],
    "wait": lambda table, *keys: [],
    "delete": lambda table, key: [b"0" if table.pop(key, None) is None else b"1"],
    "count": lambda table: [str(len(table)).encode()],
}
WAITING = {"get", "wait"}
READING = {"get", "wait", "check", "count"}


def missing_keys(command: str, items: Sequence[bytes], table: Table) -> list[bytes]:
    """The keys that a command waits for."""
    return [key for key in items if key not in table] if command in WAITING else []


def late(command: str, missing: Sequence[bytes], after: float) -> DistStoreError:
    keys = ", ".join(repr(key.decode(errors="replace")) for key in missing)
    return DistStoreError(
        f"{command}: no key {keys} after {after:g} s",
        hint="see whether the process that sets it was started, and has not ended",
    )


class HashStore(Store):
    """A store of the threads of one process."""

    def __init__(self) -> None:
        super().__init__()
        self.table: Table = {}
        self.changed = threading.Condition()

    def _call(self, command: str, *items: bytes, timeout: float | None = None) -> list[bytes]:
        with self.changed:
            if not self.changed.wait_for(
                lambda: not missing_keys(command, items, self.table), timeout
            ):
                raise late(command, missing_keys(command, items, self.table), timeout or 0.0)
            result = COMMANDS[command](self.table, *items)
            if command not in READING:
                self.changed.notify_all()
            return result


class PrefixStore(Store):
    """`store` with a prefix before each key."""

    def __init__(self, prefix: str, store: Store):
        super().__init__()
        self.prefix = prefix
        self.underlying_store = store
        self.timeout = store.timeout

    def _call(self, command: str, *items: bytes, timeout: float | None = None) -> list[bytes]:
        keys = items if command in ("check", "wait") else items[:1]
        named = [f"{self.prefix}/".encode() + key for key in keys]
        return self.underlying_store._call(command, *named, *items[len(named) :], timeout=timeout)


class FileStore(Store):
    """A store in a file that all processes can open: a log of what was set, read anew by each
    command. The file is removed by the last of `world_size` processes that let go of it."""

    def __init__(self, file_name: str, world_size: int = -1):
        super().__init__()
        self.path = os.fspath(file_name)
        self.world_size = world_size
        self.add("the processes", 1)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            if self.world_size > 0 and self.add("the processes that left", 1) == self.world_size:
                os.unlink(self.path)

    @contextlib.contextmanager
    def _open(self) -> Iterator[Any]:
        import fcntl

        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file

    def _call(self, command: str, *items: bytes, timeout: float | None = None) -> list[bytes]:
        end = time.monotonic() + (timeout or 0.0)
        while True:
            with self._open() as file:
                table = dict(_records(file.read()))
                missing = missing_keys(command, items, table)
                if not missing:
                    before = dict(table)
                    result = COMMANDS[command](table, *items)
                    file.seek(0, os.SEEK_END)
                    for key in {*table, *before}:
                        if table.get(key) != before.get(key):
                            file.write(packed([key, *([table[key]] if key in table else [])]))
                    return result
            if time.monotonic() > end:
                raise late(command, missing, timeout or 0.0)
            time.sleep(PAUSE)


def _records(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a log; a key alone stands for one that was deleted."""
    table: Table = {}
    at = 0
    while at < len(content):
        items, at = unpacked(content, at)
        if len(items) == 2:
            table[items[0]] = items[1]
        else:
            table.pop(items[0], None)
    return iter(table.items())

"""`TCPStore`: a store over a network, served by a thread of the process that says `is_master`."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from frontend.distributed.errors import DistNetworkError, DistStoreError
from frontend.distributed.stores import (
    DEFAULT_TIMEOUT,
    LENGTH,
    PAUSE,
    HashStore,
    Store,
    late,
    missing_keys,
    packed,
    seconds,
    unpacked,
)

MOST = 1 << 30
"""Bytes of the longest message."""


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            raise ConnectionError("the other side closed the connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _receive(connection: socket.socket) -> list[bytes]:
    (length,) = LENGTH.unpack(_exactly(connection, LENGTH.size))
    if length > MOST:
        raise ConnectionError("a message that is none of a store's")
    return unpacked(_exactly(connection, length))[0]


def _send(connection: socket.socket, items: Sequence[bytes]) -> None:
    content = packed(items)
    connection.sendall(LENGTH.pack(len(content)) + content)


class _Server:
    """Answers the clients of a TCPStore, a thread for each."""

    def __init__(self, host: str, port: int):
        self.store = HashStore()
        family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0][0]
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.listener.bind((host, port))
        except OSError as error:
            self.listener.close()
            raise DistNetworkError(
                f"a store cannot listen at {host or 'all addresses'}:{port}: {error.strerror}",
                hint="choose another MASTER_PORT, or 0 for any that is free",
            ) from None
        self.listener.listen(256)
        self.port = self.listener.getsockname()[1]
        self.connections: list[socket.socket] = []
        threading.Thread(target=self._accept, name="store", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return  # it was closed
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, struct.error):
            while True:
                command, timeout, *items = _receive(connection)
                wait = float(timeout) if timeout else None
                try:
                    result = self.store._call(command.decode(), *items, timeout=wait)
                except DistStoreError:
                    answer = [b"late", *missing_keys(command.decode(), items, self.store.table)]
                except (KeyError, ValueError, TypeError) as error:
                    answer = [b"wrong", repr(error).encode()]
                else:
                    answer = [b"ok", *result]
                _send(connection, answer)

    def close(self) -> None:
        for each in (self.listener, *self.connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class TCPStore(Store):
    """A store that a process serves at `host_name:port`: the one that says `is_master`. With
    `wait_for_workers` it waits until `world_size` processes have come. Port 0 takes one that is
    free; `port` says which. Raises DistNetworkError where nobody answers in time."""

    def __init__(
        self, host_name: str, port: int = 29500, world_size: int | None = None,
        is_master: bool = False, timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True, multi_tenant: bool = False, **options: Any,
    ):  # fmt: skip
        super().__init__()
        self.timeout = timeout
        self.host = host_name
        self._server = self._serve(host_name, port, multi_tenant) if is_master else None
        self.port = port if self._server is None else self._server.port
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._connection = self._connect()
        if wait_for_workers and world_size is not None and world_size > 0:
            self._await_workers(world_size)

    def _serve(self, host: str, port: int, multi_tenant: bool) -> _Server | None:
        try:
            return _Server(host, port)
        except DistNetworkError:
            if not multi_tenant:
                raise
            return None  # another store of this machine serves there

    def _await_workers(self, world_size: int) -> None:
        self.add("the processes that came", 1)
        end = time.monotonic() + seconds(self.timeout)
        while (come := self.add("the processes that came", 0)) < world_size:
            if time.monotonic() > end:
                raise DistStoreError(
                    f"{come} of {world_size} processes came to {self.host}:{self.port} within "
                    f"{seconds(self.timeout):g} s",
                    hint="see whether all were started, with the same MASTER_ADDR and MASTER_PORT",
                )
            time.sleep(PAUSE)

    def _connect(self) -> socket.socket:
        end = time.monotonic() + seconds(self.timeout)
        while True:
            try:
                connection = socket.create_connection((self.host, self.port), timeout=5)
            except OSError as error:
                if time.monotonic() > end:
                    raise DistNetworkError(
                        f"nobody answers at {self.host}:{self.port} within "
                        f"{seconds(self.timeout):g} s: {error}",
                        hint="see whether rank 0 was started, and MASTER_ADDR and MASTER_PORT are "
                        "its own",
                    ) from None
                time.sleep(PAUSE)
                continue
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection

    def _call(self, command: str, *items: bytes, timeout: float | None = None) -> list[bytes]:
        limit = b"" if timeout is None else str(timeout).encode()
        with self._lock:
            if self._owner != os.getpid():  # a fork shares the connection with its parent
                self._connection, self._owner = self._connect(), os.getpid()
            try:
                _send(self._connection, [command.encode(), limit, *items])
                status, *result = _receive(self._connection)
            except OSError as error:
                raise DistNetworkError(
                    f"the store at {self.host}:{self.port} is gone ({error})",
                    hint="the process that served it, rank 0 or the launcher, has ended",
                ) from None
        if status == b"late":
            raise late(command, result, timeout or 0.0)
        if status != b"ok":
            raise DistStoreError(f"{command}: {result[0].decode()}")
        return result

    def __repr__(self) -> str:
        return f"TCPStore({self.host}:{self.port})"

    def close(self) -> None:
        """Let go of the connection; the process that serves ends serving."""
        self._connection.close()
        if self._server is not None:
            self._server.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

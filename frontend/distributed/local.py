"""The transport of one machine, without MPI: a Unix socket between each two processes, and memory
that they share for what is large.

in : a rank, the number of ranks, a store by which they find each other
out: a Transport

Each sender has a ring in shared memory for each receiver. On the socket go frames: small messages
whole, of large ones a frame for each piece that lies in the ring; the receiver says how many bytes
it has taken out. So the order of memory accesses between processors is the kernel's business, a
wait is a `poll` of sockets, and a process that is killed is seen at once: its sockets close.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import select
import shutil
import socket
import struct
import tempfile
import time
from collections import defaultdict, deque
from typing import Any

import numpy as np

from frontend.distributed.errors import DistNetworkError
from frontend.distributed.stores import Store
from frontend.distributed.transport import LONGEST_REASON, SPINNING

FRAME = struct.Struct("<IIQ")  # kind, channel, bytes
WHOLE, LARGE, PIECE, TAKEN, LEFT = range(5)
SMALL = 1 << 13
"""Bytes of the largest message that goes through the socket."""
LONGEST_PIECE = 1 << 18
RINGS = 1 << 24
"""Bytes of all rings together, about: containers give shared memory of 64 MB."""
SHORTEST_RING, LONGEST_RING = 1 << 16, 1 << 21
GONE = "its process ended"


class _Out:
    """A message that is being sent."""

    __slots__ = ("at", "channel", "data", "done")

    def __init__(self, channel: int, data: Any):
        self.channel, self.data, self.at, self.done = channel, data, 0, False


class _In:
    """A message that is being received, or that came before anybody asked."""

    __slots__ = ("at", "done", "into")

    def __init__(self, into: Any):
        self.into, self.at, self.done = into, 0, False


class Peer:
    """The connection to one other rank."""

    def __init__(self, rank: int, connection: socket.socket, out_ring: Any, in_ring: Any):
        self.rank = rank
        self.connection = connection
        connection.setblocking(False)
        self.out_ring, self.in_ring = out_ring, in_ring
        self.out_at, self.out_free = 0, len(out_ring)
        self.in_at = 0
        self.unsent = bytearray()
        self.outgoing: deque[_Out] = deque()
        self.come = bytearray()
        self.posted: dict[int, deque[_In]] = defaultdict(deque)
        self.arrived: dict[int, deque[_In]] = defaultdict(deque)
        self.large: _In | None = None
        self.reason: str | None = None

    # -- out -------------------------------------------------------------------------------------

    def feed(self) -> None:
        """Put what fits of the messages into socket and ring."""
        while self.outgoing:
            message = self.outgoing[0]
            size = len(message.data)
            if size <= SMALL:
                self.unsent += FRAME.pack(WHOLE, message.channel, size)
                self.unsent += message.data.data
            elif not self._piecewise(message, size):
                break
            message.done = True
            self.outgoing.popleft()
        self._flush()

    def _piecewise(self, message: _Out, size: int) -> bool:
        """Put pieces into the ring; whether that was all."""
        if not message.at and self.out_free:
            self.unsent += FRAME.pack(LARGE, message.channel, size)
        while message.at < size and self.out_free:
            room = min(self.out_free, len(self.out_ring) - self.out_at, LONGEST_PIECE)
            count = min(size - message.at, room)
            piece = message.data[message.at : message.at + count]
            self.out_ring[self.out_at : self.out_at + count] = piece
            self.unsent += FRAME.pack(PIECE, 0, count)
            message.at += count
            self.out_at = (self.out_at + count) % len(self.out_ring)
            self.out_free -= count
            self._flush()
        return message.at == size

    def _flush(self) -> None:
        while self.unsent and self.reason is None:
            try:
                sent = self.connection.send(self.unsent)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # it is gone; what it sent is still to be read
                self.unsent.clear()
                return
            del self.unsent[:sent]

    # -- in --------------------------------------------------------------------------------------

    def read(self) -> None:
        """Take what has come out of socket and ring."""
        ended = False
        while True:
            try:
                part = self.connection.recv(1 << 16)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                part = b""
            if not part:
                ended = True
                break
            self.come += part
            if len(part) < 1 << 16:
                break
        at = 0
        while len(self.come) - at >= FRAME.size:
            kind, channel, count = FRAME.unpack_from(self.come, at)
            inline = count if kind in (WHOLE, LEFT) else 0
            if len(self.come) - at < FRAME.size + inline:
                break
            at += FRAME.size
            self._take(kind, channel, count, memoryview(self.come)[at : at + inline])
            at += inline
        del self.come[:at]
        if self.unsent:
            self._flush()
        if ended and self.reason is None:
            self.reason = GONE

    def _take(self, kind: int, channel: int, count: int, content: Any) -> None:
        if kind == WHOLE:
            message = self._target(channel, count)
            message.into[:] = np.frombuffer(content, np.uint8)
            message.done = True
        elif kind == LARGE:
            self.large = self._target(channel, count)
        elif kind == PIECE:
            assert self.large is not None
            message = self.large
            ring = self.in_ring[self.in_at : self.in_at + count]
            message.into[message.at : message.at + count] = ring
            message.at += count
            message.done = message.at == len(message.into)
            self.large = None if message.done else message  # who asked for it may hold it alone
            self.in_at = (self.in_at + count) % len(self.in_ring)
            self.unsent += FRAME.pack(TAKEN, 0, count)
        elif kind == TAKEN:
            self.out_free += count
        elif kind == LEFT:
            self.reason = bytes(content).decode(errors="replace")

    def _target(self, channel: int, count: int) -> _In:
        """Where a message goes: to whom asked for it, or aside."""
        if self.posted.get(channel):
            message = self.posted[channel].popleft()
            if not self.posted[channel]:
                del self.posted[channel]
            if len(message.into) == count:
                return message
            raise DistNetworkError(
                f"rank {self.rank} sent {count} bytes where {len(message.into)} were to come"
            )
        message = _In(np.empty(count, np.uint8))
        self.arrived[channel].append(message)
        return message

    def receive(self, channel: int, into: Any) -> _In:
        waiting = self.arrived.get(channel)
        if not waiting:
            message = _In(into)
            self.posted[channel].append(message)
            return message
        message = waiting.popleft()
        if not waiting:
            del self.arrived[channel]
        if len(message.into) != len(into):
            raise DistNetworkError(
                f"rank {self.rank} sent {len(message.into)} bytes where {len(into)} were to come"
            )
        here = len(into) if message.done else message.at
        into[:here] = message.into[:here]
        message.into = into
        return message


class LocalTransport:
    """Ranks of one machine. Made by all of them at about the same time: raises DistStoreError where
    one does not come within the store's timeout, RuntimeError where one is of another machine."""

    name = "local"

    def __init__(self, rank: int, size: int, store: Store):
        self.rank, self.size = rank, size
        self.left: dict[int, str] = {}
        self.peers: dict[int, Peer] = {}
        self._poll = select.poll()
        self._by_descriptor: dict[int, Peer] = {}
        self._owner = os.getpid()
        if size > 1:
            self._connect(store)

    # -- finding each other ----------------------------------------------------------------------

    def _connect(self, store: Store) -> None:
        ring = max(SHORTEST_RING, min(LONGEST_RING, RINGS // (self.size * (self.size - 1))))
        folder = tempfile.mkdtemp(prefix="ranks-")
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        descriptor, path = tempfile.mkstemp(prefix="ranks-", dir=shared)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            os.ftruncate(descriptor, ring * self.size)
            own = _mapped(descriptor)
            address = os.path.join(folder, "socket")
            listener.bind(address)
            listener.listen(self.size)
            place = {"host": socket.gethostname(), "socket": address, "memory": path}
            store.set(f"rank{self.rank}", json.dumps(place))
            places = [json.loads(store.get(f"rank{other}")) for other in range(self.size)]
            _check_one_machine(places)
            others = self._sockets(listener, places, store.timeout.total_seconds())
            for other, connection in sorted(others.items()):
                with open(places[other]["memory"], "r+b") as file:
                    theirs = _mapped(file.fileno())
                out_ring = own[ring * other : ring * (other + 1)]
                in_ring = theirs[ring * self.rank : ring * (self.rank + 1)]
                peer = self.peers[other] = Peer(other, connection, out_ring, in_ring)
                self._by_descriptor[connection.fileno()] = peer
                self._poll.register(connection, select.POLLIN)
            store.set(f"connected{self.rank}", b"")
            store.wait([f"connected{other}" for other in range(self.size)])
        finally:  # from here on names are not needed, and nothing is left behind by who is killed
            listener.close()
            os.close(descriptor)
            os.unlink(path)
            shutil.rmtree(folder, ignore_errors=True)

    def _sockets(
        self, listener: socket.socket, places: list[Any], timeout: float
    ) -> dict[int, socket.socket]:
        """A connection to each other rank: to lower ones it is made, from higher ones taken."""
        others = {}
        for other in range(self.rank):
            others[other] = connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(places[other]["socket"])
            connection.sendall(struct.pack("<I", self.rank))
        listener.settimeout(timeout)
        while len(others) < self.size - 1:
            connection, _ = listener.accept()
            connection.settimeout(timeout)
            (other,) = struct.unpack("<I", connection.recv(4, socket.MSG_WAITALL))
            others[other] = connection
        return others

    # -- the interface ---------------------------------------------------------------------------

    def send(self, peer: int, channel: int, data: Any) -> _Out:
        to = self.peers[peer]
        message = _Out(channel, data)
        to.outgoing.append(message)
        if len(to.outgoing) == 1:
            to.feed()
        return message

    def receive(self, peer: int, channel: int, into: Any) -> _In:
        return self.peers[peer].receive(channel, into)

    def waiting(self, channel: int) -> int | None:
        for rank, peer in self.peers.items():
            if peer.arrived.get(channel):
                return rank
        return None

    def poll(self, idle: float) -> None:
        limit = 0 if idle < SPINNING else 20 if idle < 1 else 100
        for peer in self.peers.values():
            if peer.outgoing or peer.unsent:
                peer.feed()
                limit = min(limit, 1) if peer.unsent else limit
        ready = self._poll.poll(limit)
        if not ready and not limit:
            os.sched_yield()
        for descriptor, _ in ready:
            peer = self._by_descriptor[descriptor]
            peer.read()
            if peer.outgoing:
                peer.feed()
            if peer.reason is not None:
                self.left[peer.rank] = peer.reason
                self._poll.unregister(descriptor)

    def leave(self, reason: str) -> None:
        if self._owner != os.getpid():
            return
        said = reason.encode()[:LONGEST_REASON]
        end = time.monotonic() + 1.0
        for peer in self.peers.values():
            peer.unsent += FRAME.pack(LEFT, 0, len(said)) + said
            peer.feed()
        while any(p.unsent or p.outgoing for p in self.peers.values() if p.reason is None):
            if time.monotonic() > end:
                return
            self.poll(0.001)

    def end(self, status: int) -> None:
        """Nothing: the others see that this process is gone."""

    def close(self) -> None:
        for peer in self.peers.values():
            with contextlib.suppress(OSError):
                peer.connection.close()
        self.peers.clear()


def _mapped(descriptor: int) -> np.ndarray:
    return np.frombuffer(mmap.mmap(descriptor, 0), np.uint8)


def _check_one_machine(places: list[Any]) -> None:
    hosts = list(dict.fromkeys(place["host"] for place in places))
    if len(hosts) > 1:
        raise DistNetworkError(
            f"the ranks are on {len(hosts)} machines ({', '.join(hosts)}), and were not started by "
            "mpiexec",
            hint="install the extra `mpi`, and start them by mpiexec",
        )

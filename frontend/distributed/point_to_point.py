"""Messages between two processes: `send`, `recv`, `isend`, `irecv`, `batch_isend_irecv`.

A header goes before each message, so that a receiver of another shape or dtype says so rather than
wait. Messages of one tag arrive in the order in which they were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from frontend.distributed.collectives import Filled
from frontend.distributed.errors import DistBackendError
from frontend.distributed.exchange import DIRECT, HEADER, SEQUENCES, as_bytes, channel
from frontend.distributed.groups import ProcessGroup, resolved
from frontend.distributed.world import Work, current
from frontend.engine.tensors.tensor import Tensor
from graphc.ir.builder import user_location


def _channel(chosen: ProcessGroup, tag: int) -> int:
    if not 0 <= tag < SEQUENCES:
        raise ValueError(f"a tag is a number from 0 to {SEQUENCES - 1}, not {tag}")
    return channel(DIRECT, chosen._members.identity, tag)


def _peer(chosen: ProcessGroup, rank: Any, among: Any, name: str) -> int:
    """The rank of the world that is named."""
    members = chosen._members
    if among is not None:
        rank = members.ranks[among]
    if rank not in members.ranks:
        raise ValueError(f"Global rank {rank} is not part of group {chosen}")
    if rank == members.ranks[members.me]:
        raise ValueError(f"Invalid {name} rank: {name} rank should not be the same as the rank of "
                         "the current process.")  # fmt: skip
    return int(rank)


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Begin to send a tensor to one process; it may be changed after the work's `wait()`."""
    chosen = resolved(group)
    if chosen is None:
        return None
    peer = _peer(chosen, dst, group_dst, "destination")
    sent = Filled("send()", tensor, False)
    which = _channel(chosen, tag)
    said = f"{sent.types()}\x1f{user_location() or ''}".encode()[:HEADER]
    header = np.zeros(HEADER, np.uint8)
    header[: len(said)] = np.frombuffer(said, np.uint8)

    def steps() -> Any:
        transport = current().transport
        messages = [(peer, transport.send(peer, which, header))]
        if len(sent.flat[0]):
            messages.append((peer, transport.send(peer, which, as_bytes(sent.flat[0]))))
        yield messages

    return current().start(f"send({sent.types()}, dst={peer})", steps(), chosen._timeout)


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Begin to receive a tensor from one process, or from any (`src` None)."""
    chosen = resolved(group)
    if chosen is None:
        return None
    which = _channel(chosen, tag)
    if src is None and group_src is None:
        peer = _any_peer(chosen, which)
    else:
        peer = _peer(chosen, src, group_src, "source")
    filled = Filled("recv()", tensor, True)
    name = f"recv({filled.types()}, src={peer})"
    place = user_location()

    def steps() -> Any:
        transport = current().transport
        header = np.empty(HEADER, np.uint8)
        yield [(peer, transport.receive(peer, which, header))]
        kind, _, sender = bytes(header).rstrip(b"\0").decode(errors="replace").partition("\x1f")
        if kind != filled.types():
            raise DistBackendError(
                f"rank {peer} sent {kind} at {sender}, where {name} was called at {place}",
                hint="send and receive tensors of the same shape and dtype, in the same order",
            )
        if len(filled.flat[0]):
            yield [(peer, transport.receive(peer, which, as_bytes(filled.flat[0])))]
        filled.store()
        return filled.tensors

    work = current().start(name, steps(), chosen._timeout)
    work.source = peer  # type: ignore[attr-defined]
    return work


def _any_peer(chosen: ProcessGroup, which: int) -> int:
    """The first process of which a message waits."""
    world = current()
    others = [r for r in chosen._members.ranks if r != world.transport.rank]
    world.wait_until(
        lambda: world.transport.waiting(which) is not None,
        lambda: others if all(r in world.transport.left for r in others) else [],
        "recv() from any rank", chosen._timeout,
    )  # fmt: skip
    source = world.transport.waiting(which)
    assert source is not None
    return source


def send(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Send a tensor to one process."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> int:  # fmt: skip
    """Receive a tensor from one process, or from any (`src` None). The rank it came from; -1 where
    this process is not in the group. Raises DistBackendError where one of another shape or dtype
    was sent."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return int(work.source)  # type: ignore[attr-defined]


class P2POp:
    """One `isend` or `irecv` of `batch_isend_irecv`."""

    def __init__(
        self, op: Callable[..., Any], tensor: Tensor, peer: int | None = None, group: Any = None,
        tag: int = 0, group_peer: int | None = None,
    ):  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be torch.distributed.isend or "
                             "torch.distributed.irecv.")  # fmt: skip
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Any]:
    """Begin all of them; a Work for each."""
    works = [op.op(op.tensor, op.peer, op.group, op.tag, op.group_peer) for op in p2p_op_list]
    return [work for work in works if work is not None]

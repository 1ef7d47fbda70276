"""The collectives of Python objects: what can be pickled. Objects of processes that are not trusted
must not be read: unpickling runs code."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

from frontend.distributed.collectives import position
from frontend.distributed.exchange import Round, exchange_objects
from frontend.distributed.groups import ProcessGroup, resolved
from frontend.distributed.world import current


def _exchanged(
    chosen: ProcessGroup, name: str, content: bytes, readers: Sequence[int], writers: Sequence[int]
) -> list[Any]:
    round = Round(chosen._members, name, str(len(content)))
    steps = exchange_objects(round, content, readers, writers)
    work = current().start(name, steps, chosen._timeout)
    work.wait()
    return [None if data is None else data.tobytes() for data in work.value]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """`object_list` becomes the objects of all processes."""
    chosen = resolved(group)
    if chosen is None:
        return
    everybody = range(chosen.size())
    contents = _exchanged(
        chosen, "all_gather_object()", pickle.dumps(obj), everybody, everybody
    )  # fmt: skip
    object_list[:] = [pickle.loads(content) for content in contents]


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None,
    group: Any = None, group_dst: int | None = None,
) -> None:  # fmt: skip
    """On `dst` the list becomes the objects of all processes."""
    chosen = resolved(group)
    if chosen is None:
        return
    root = position(chosen, dst, group_dst, "dst")
    if chosen.rank() == root and object_gather_list is None:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    contents = _exchanged(
        chosen, f"gather_object(dst={chosen._members.ranks[root]})", pickle.dumps(obj), [root],
        range(chosen.size()),
    )  # fmt: skip
    if chosen.rank() == root:
        assert object_gather_list is not None
        object_gather_list[:] = [pickle.loads(content) for content in contents]


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None,
) -> None:  # fmt: skip
    """The list's items become those of the process `src`."""
    chosen = resolved(group)
    if chosen is None:
        return
    root = position(chosen, src, 0 if src is None and group_src is None else group_src, "src")
    sends = chosen.rank() == root
    content = pickle.dumps(list(object_list)) if sends else b""
    name = f"broadcast_object_list({len(object_list)} objects, src={chosen._members.ranks[root]})"
    contents = _exchanged(chosen, name, content, range(chosen.size()), [root])
    if not sends:
        object_list[:] = pickle.loads(contents[root])


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
    src: int | None = None, group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """The first item of the list becomes the one of `src`'s list that is meant for this process."""
    chosen = resolved(group)
    if chosen is None:
        return
    root = position(chosen, src, 0 if src is None and group_src is None else group_src, "src")
    if not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    content = b""
    if chosen.rank() == root:
        if len(scatter_object_input_list or ()) != chosen.size():
            raise ValueError(
                f"scatter_object_list: {len(scatter_object_input_list or ())} objects for "
                f"{chosen.size()} processes"
            )
        content = pickle.dumps(list(scatter_object_input_list or ()))
    name = f"scatter_object_list(src={chosen._members.ranks[root]})"
    contents = _exchanged(chosen, name, content, range(chosen.size()), [root])
    scatter_object_output_list[0] = pickle.loads(contents[root])[chosen.rank()]


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Send objects to one process."""
    from frontend.distributed.point_to_point import send
    from frontend.functions.creation import tensor

    content = pickle.dumps(list(object_list))
    send(tensor([len(content)]), dst, group, group_dst=group_dst)
    send(tensor(list(content)), dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None,
    group_src: int | None = None,
) -> int:  # fmt: skip
    """Receive what `send_object_list` of a process sent; the rank it came from."""
    from frontend.distributed.point_to_point import recv
    from frontend.functions.creation import zeros
    from graphc.ir.types import DType

    size = zeros(1, dtype=DType.i64)
    source = recv(size, src, group, group_src=group_src)
    if source < 0:
        return source
    content = zeros(int(size), dtype=DType.i64)
    recv(content, None if group_src is not None else source, group, group_src=group_src)
    object_list[:] = pickle.loads(bytes(content.tolist()))
    return source

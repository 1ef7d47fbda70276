"""The collectives, over any transport: who sends what to whom, and in which order values add up.

in : arrays of one dimension, a group
out: generators for `World.start`; what they are given is filled in place

Each begins with a header that every member sends to every other: what is called, on which shapes
and dtypes. Members that do not agree get the same error, before any data moves. Sums are made of
parts that are exchanged all to all, added as a binary tree over the ranks, and gathered: as many
bytes as a ring, and bits that depend on neither transport nor size.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from frontend.distributed.errors import DistBackendError
from frontend.distributed.transport import Message
from frontend.distributed.world import Steps, World, current
from frontend.engine.tensors.bounded import Bounded
from graphc.ir.builder import user_location

HEADER = 512
"""Bytes of a header."""
AGREED = 300
"""Bytes of it that say what is called; of a longer text the rest is a digest."""
SHORT = 1 << 12
"""Bytes up to which each member gets the whole array of all others, in one exchange."""

PIECE = 1 << 17
"""Bytes that are reduced at a time where members share memory: all members' stay in the cache."""

HEADERS, DATA, OBJECTS, DIRECT = range(1, 5)
"""Kinds of channels."""
SEQUENCES = 1 << 12
GROUPS = 1 << 11
Reduction = Callable[[Any, Any, Any], Any]  # NumPy's ufuncs: out = a ∘ b


def channel(kind: int, group: int, number: int) -> int:
    """The number of a channel: within MPI's least bound for tags of the MPIs that are in use."""
    return (kind * GROUPS + group % GROUPS) * SEQUENCES + number % SEQUENCES


def as_bytes(array: np.ndarray) -> np.ndarray:
    """The bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8)


def tree(rows: Any, op: Reduction, out: Any = None) -> Any:
    """The rows reduced as a binary tree: (0 ∘ 1) ∘ (2 ∘ 3), … Ranks that hold aligned blocks of a
    power of two get, block by block, the tree of all. The result is in `out`, by default the first
    of the rows, whose contents are used up."""
    out = rows[0] if out is None else out
    step = 1
    while step < len(rows):
        last = 2 * step >= len(rows)
        for i in range(0, len(rows) - step, 2 * step):
            op(rows[i], rows[i + step], out if last else rows[i])
        step *= 2
    if len(rows) == 1 and out is not rows[0]:
        out[...] = rows[0]
    return out


class Members:
    """The ranks of a group, as one collective sees them. `ranks`: of the world, in the order of the
    group; `me` is this process among them."""

    def __init__(self, ranks: tuple[int, ...], identity: int):
        self.ranks, self.identity = ranks, identity
        self.size = len(ranks)
        self.sequence = 0
        self.headers: Bounded[tuple[str, str, str], np.ndarray] = Bounded(64)
        world = current()
        self.me = ranks.index(world.transport.rank) if world.transport.rank in ranks else -1


class Round:
    """One collective of a group: its messages, on channels of its own."""

    def __init__(self, members: Members, name: str, own: str = ""):
        self.world: World = current()
        self.members, self.name, self.own = members, name, own
        self.me, self.size = members.me, members.size
        self.others = [m for m in range(members.size) if m != members.me]
        self.number = members.sequence
        members.sequence += 1
        self.place = str(user_location() or "")
        self.owns: list[str] = []

    def to(self, member: int, data: np.ndarray, kind: int = DATA) -> tuple[int, Message]:
        rank = self.members.ranks[member]
        which = channel(kind, self.members.identity, self.number if kind != HEADERS else 0)
        return rank, self.world.transport.send(rank, which, as_bytes(data))

    def of(self, member: int, into: np.ndarray, kind: int = DATA) -> tuple[int, Message]:
        rank = self.members.ranks[member]
        which = channel(kind, self.members.identity, self.number if kind != HEADERS else 0)
        return rank, self.world.transport.receive(rank, which, as_bytes(into))

    # -- the header ------------------------------------------------------------------------------

    def agree(self) -> Steps:
        """Have all members see that they call the same. Raises DistBackendError on all of them
        where they do not; `owns` is then what each says of itself."""
        mine = self._header()
        boxes = np.zeros((self.size, HEADER), np.uint8)
        boxes[self.me] = mine
        if self.others:
            sent = [self.to(m, mine, HEADERS) for m in self.others]
            yield [*sent, *[self.of(m, boxes[m], HEADERS) for m in self.others]]
        if bool((boxes == mine).all()):
            self.owns = [self.own] * self.size
            return
        texts = [bytes(box).rstrip(b"\0").decode(errors="replace").split("\x1f") for box in boxes]
        if any(text[0] != texts[0][0] for text in texts):
            raise self._disagreement(texts)
        self.owns = [text[1] for text in texts]

    def _header(self) -> np.ndarray:
        """What is called, and where: of a loop the same again and again."""
        headers, key = self.members.headers, (self.name, self.own, self.place)
        header = headers.get(key)
        if header is None:
            said = "\x1f".join((_short(self.name, AGREED), self.own, ""))
            content = (said + self.place[-(HEADER - len(said.encode())) :]).encode()[:HEADER]
            header = np.zeros(HEADER, np.uint8)
            header[: len(content)] = np.frombuffer(content, np.uint8)
            headers[key] = header
        return header

    def _disagreement(self, texts: list[list[str]]) -> DistBackendError:
        said: dict[tuple[str, str], list[int]] = {}
        for rank, text in zip(self.members.ranks, texts):
            said.setdefault((text[0], text[2]), []).append(rank)
        lines = [
            f"\n  rank {', '.join(map(str, ranks))}: {name} at {place}"
            for (name, place), ranks in said.items()
        ]
        return DistBackendError(
            f"the ranks do not call the same collective (number {self.number} of their group):"
            + "".join(lines),
            hint="have all ranks call the same collectives in the same order, on tensors of the "
            "same shapes and dtypes",
        )

    def refuse(self, reason: str) -> DistBackendError:
        """An error that all members see."""
        return DistBackendError(f"{self.name} at {self.place}: {reason}")


def _short(text: str, most: int) -> str:
    if len(text.encode()) <= most:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f"{text[: most // 2]}… ({digest})"


def _bounds(count: int, parts: int) -> list[int]:
    """Where the parts of `count` elements begin, and the end: whole lines of the cache."""
    each = -(-count // parts)
    each = -(-each // 16) * 16
    return [min(each * i, count) for i in range(parts + 1)]


# -- the collectives -----------------------------------------------------------------------------


def barrier(round: Round) -> Steps:
    yield from round.agree()


def reduce_parts(round: Round, flat: np.ndarray, op: Reduction, finish: Any) -> Steps:
    """Of parts of `flat` that are exchanged all to all each member reduces its own, in place. The
    bounds of the parts."""
    bounds = _bounds(len(flat), round.size)
    parts = [flat[a:b] for a, b in itertools.pairwise(bounds)]
    mine = parts[round.me]
    rows = [mine if m == round.me else np.empty_like(mine) for m in range(round.size)]
    sent = [round.to(m, parts[m]) for m in round.others if len(parts[m])]
    yield [*sent, *[round.of(m, rows[m]) for m in round.others if len(mine)]]
    result = tree(rows, op)
    if result is not mine:
        mine[:] = result
    if finish is not None:
        finish(mine)
    return parts


def all_reduce(
    round: Round, flat: np.ndarray, op: Reduction, finish: Any = None,
    everywhere: Sequence[np.ndarray] | None = None,
) -> Steps:  # fmt: skip
    """`flat` becomes the reduction of all members' ones; `finish(part)` is done to each part.
    `everywhere`: the arrays of all members, where these lie in memory that they share, which `own`
    of the round names."""
    yield from round.agree()
    if everywhere is not None and all(own == round.own for own in round.owns):
        yield from reduce_in_place(round, everywhere, op, finish)
        return
    if round.size == 1:
        if finish is not None:
            finish(flat)
        return
    if flat.nbytes <= SHORT:
        rows = np.empty((round.size, len(flat)), flat.dtype)
        rows[round.me] = flat
        sent = [round.to(m, flat) for m in round.others if len(flat)]
        yield [*sent, *[round.of(m, rows[m]) for m in round.others if len(flat)]]
        flat[:] = tree(rows, op)
        if finish is not None:
            finish(flat)
        return
    parts = yield from reduce_parts(round, flat, op, finish)
    mine = parts[round.me]
    sent = [round.to(m, mine) for m in round.others if len(mine)]
    yield [*sent, *[round.of(m, parts[m]) for m in round.others if len(parts[m])]]


def reduce_in_place(
    round: Round, everywhere: Sequence[np.ndarray], op: Reduction, finish: Any
) -> Steps:
    """All arrays become their reduction: each member computes a part, and puts it into all of them.
    Nobody else touches that part of them, from the headers until all have said that they are
    through."""
    bounds = _bounds(len(everywhere[0]), round.size)
    end = bounds[round.me + 1]
    step = PIECE // everywhere[0].itemsize
    for start in range(bounds[round.me], end, step):
        rows = [array[start : min(start + step, end)] for array in everywhere]
        result = tree(rows, op, rows[round.me])
        if finish is not None:
            finish(result)
        for m in round.others:
            rows[m][:] = result
    through = np.zeros((round.size, 1), np.uint8)
    sent = [round.to(m, through[round.me]) for m in round.others]
    yield [*sent, *[round.of(m, through[m]) for m in round.others]]


def reduce(
    round: Round, flat: np.ndarray, op: Reduction, root: int, finish: Any = None
) -> Steps:  # fmt: skip
    """The root's `flat` becomes the reduction; what others have is as it was."""
    yield from round.agree()
    own = flat if round.me == root else flat.copy()
    parts = yield from reduce_parts(round, own, op, finish)
    if round.me == root:
        yield [round.of(m, parts[m]) for m in round.others if len(parts[m])]
    elif len(parts[round.me]):
        yield [round.to(root, parts[round.me])]


def reduce_scatter(
    round: Round, out: np.ndarray, parts: Sequence[np.ndarray], op: Reduction, finish: Any = None
) -> Steps:
    """`out` becomes the reduction of the parts that are meant for this member."""
    yield from round.agree()
    rows = np.empty((round.size, len(out)), out.dtype)
    rows[round.me] = parts[round.me]
    sent = [round.to(m, parts[m]) for m in round.others if len(out)]
    yield [*sent, *[round.of(m, rows[m]) for m in round.others if len(out)]]
    out[:] = tree(rows, op)
    if finish is not None:
        finish(out)


def broadcast(round: Round, flat: np.ndarray, root: int) -> Steps:
    """`flat` becomes the root's. Large ones in parts, which the members hand on to each other."""
    yield from round.agree()
    if not len(flat):
        return
    if round.size <= 2 or flat.nbytes <= SHORT:
        if round.me == root:
            yield [round.to(m, flat) for m in round.others]
        else:
            yield [round.of(root, flat)]
        return
    bounds = _bounds(len(flat), round.size)
    parts = [flat[a:b] for a, b in itertools.pairwise(bounds)]
    full = [m for m in range(round.size) if len(parts[m])]
    if round.me == root:
        # The root's own part goes to everybody at once.
        sent = [round.to(m, parts[m]) for m in full if m != root]
        yield [*sent, *[round.to(m, parts[root]) for m in round.others if root in full]]
        return
    if round.me in full:
        yield [round.of(root, parts[round.me])]
    others = [m for m in round.others if m != root]
    sent = [round.to(m, parts[round.me]) for m in others if round.me in full]
    taken = [round.of(m, parts[m]) for m in full if m not in (round.me, root)]
    yield [*sent, *taken, *([round.of(root, parts[root])] if root in full else [])]


def all_to_all(round: Round, outs: Sequence[np.ndarray], ins: Sequence[np.ndarray]) -> Steps:
    """`outs[m]` becomes what member m has for this one in its `ins`. Lengths may differ: `own` of
    the round says those of `ins`."""
    yield from round.agree()
    for m in round.others:
        coming = int(round.owns[m].split(",")[round.me])
        if coming != outs[m].nbytes:
            raise round.refuse(
                f"rank {round.members.ranks[m]} sends {coming} bytes where {outs[m].nbytes} are "
                "expected"
            )
    outs[round.me][:] = ins[round.me]
    sent = [round.to(m, ins[m]) for m in round.others if len(ins[m])]
    yield [*sent, *[round.of(m, outs[m]) for m in round.others if len(outs[m])]]


def all_gather(round: Round, outs: Sequence[np.ndarray], flat: np.ndarray) -> Steps:
    """`outs[m]` becomes the `flat` of member m."""
    yield from round.agree()
    outs[round.me][:] = flat
    sent = [round.to(m, flat) for m in round.others if len(flat)]
    yield [*sent, *[round.of(m, outs[m]) for m in round.others if len(outs[m])]]


def gather(round: Round, outs: Sequence[np.ndarray], flat: np.ndarray, root: int) -> Steps:
    """As `all_gather`, for the root alone."""
    yield from round.agree()
    if round.me != root:
        yield [round.to(root, flat)] if len(flat) else []
        return
    outs[root][:] = flat
    yield [round.of(m, outs[m]) for m in round.others if len(flat)]


def scatter(round: Round, out: np.ndarray, parts: Sequence[np.ndarray], root: int) -> Steps:
    """`out` becomes the part of the root's `parts` that is meant for this member."""
    yield from round.agree()
    if round.me != root:
        yield [round.of(root, out)] if len(out) else []
        return
    out[:] = parts[root]
    yield [round.to(m, parts[m]) for m in round.others if len(out)]


def exchange_objects(
    round: Round, content: bytes, readers: Sequence[int], writers: Sequence[int]
) -> Steps:
    """The bytes of each writer, for each reader; None from others."""
    yield from round.agree()
    data = np.frombuffer(content, np.uint8)
    sizes = [int(own or 0) for own in round.owns]
    results: list[Any] = [None] * round.size
    pending = []
    if round.me in writers and len(data):
        pending += [round.to(m, data, OBJECTS) for m in round.others if m in readers]
    if round.me in readers:
        for m in writers:
            results[m] = data if m == round.me else np.empty(sizes[m], np.uint8)
        others = [m for m in writers if m != round.me and sizes[m]]
        pending += [round.of(m, results[m], OBJECTS) for m in others]
    yield pending
    return results

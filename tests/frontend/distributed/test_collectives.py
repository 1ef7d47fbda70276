"""What ranks exchange, held to what NumPy makes of all ranks' arrays; and what they are told when
they do not agree."""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.distributed as dist
from tests.frontend.distributed.ranks import Failed, checked, on_ranks

SIZES = 0, 1, 5, 1000, 300_017
"""Below and above what goes in one message, and what does not divide by the ranks."""


def tree(arrays: list[Any]) -> Any:
    """The sum as documented: a binary tree over the ranks."""
    arrays = [array.copy() for array in arrays]
    while len(arrays) > 1:
        pairs = [arrays[i : i + 2] for i in range(0, len(arrays), 2)]
        arrays = [pair[0] + pair[1] if len(pair) == 2 else pair[0] for pair in pairs]
    return arrays[0]


def _collectives(rank: int, count: int) -> int:
    checks = 0

    def same(tensor: Any, array: Any) -> None:
        nonlocal checks
        value = tensor.numpy()
        assert value.dtype == array.dtype and value.tobytes() == array.tobytes()
        checks += 1

    for n in SIZES:
        a = [
            np.random.default_rng(i + n).standard_normal(n).astype(np.float32) for i in range(count)
        ]

        def mine(factor: float = 1.0, a: Any = a) -> Any:
            return torch.from_numpy(a[rank] * np.float32(factor))

        x = mine()
        before = x._version
        dist.all_reduce(x)
        same(x, tree(a))
        assert x._version > before
        x = mine()
        dist.all_reduce(x, dist.ReduceOp.AVG)
        same(x, tree(a) / np.float32(count))
        x = mine()
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
        same(x, np.max(a, axis=0) if n else a[0])
        for root in (0, count - 1):
            x = mine()
            dist.broadcast(x, src=root)
            same(x, a[root])
            x = mine()
            dist.reduce(x, dst=root)
            same(x, tree(a) if rank == root else a[rank])
            outs = [torch.empty(n) for _ in range(count)] if rank == root else None
            dist.gather(mine(), outs, dst=root)
            for m, out in enumerate(outs or ()):
                same(out, a[m])
            parts = [torch.from_numpy(p) for p in a] if rank == root else None
            x = torch.empty(n)
            dist.scatter(x, parts, src=root)
            same(x, a[rank])
        outs = [torch.empty(n) for _ in range(count)]
        works = [dist.all_gather(outs, mine(), async_op=True), dist.barrier(async_op=True)]
        x = mine()
        works.append(dist.all_reduce(x, async_op=True))
        for work in reversed(works):
            assert work.wait()
        for m, out in enumerate(outs):
            same(out, a[m])
        same(x, tree(a))
        x = torch.empty(count * n)
        dist.all_gather_into_tensor(x, mine())
        same(x, np.concatenate(a))
        dist.all_to_all(outs, [mine(m + 1) for m in range(count)])
        for m, out in enumerate(outs):
            same(out, a[m] * np.float32(rank + 1))
        x = torch.empty(n)
        dist.reduce_scatter(x, [mine(m + 1) for m in range(count)])
        same(x, tree([p * np.float32(rank + 1) for p in a]))
        y = torch.empty(n)
        dist.reduce_scatter_tensor(y, torch.cat([mine(m + 1) for m in range(count)]))
        same(y, x.numpy())
    # rows by rows, in sizes of one's own; what is not contiguous; other dtypes
    sent = torch.arange(2 * count).reshape(-1, 2) + 100 * rank
    x = torch.empty((count * (rank + 1), 2), dtype=torch.int64)
    sizes = [rank + 1] * count
    dist.all_to_all_single(
        x, sent[:1].expand(sum(range(count + 1)), 2).contiguous(), sizes, list(range(1, count + 1))
    )
    same(x, np.repeat([[100 * m, 100 * m + 1] for m in range(count)], rank + 1, axis=0))
    wide = torch.zeros(3, 4)
    dist.all_reduce(wide.t())
    dist.all_reduce(wide[:, 1], op=dist.ReduceOp.SUM)
    x = torch.full((3,), rank + 1, dtype=torch.int64)
    dist.all_reduce(x, dist.ReduceOp.BOR)
    assert x.tolist() == [int(np.bitwise_or.reduce(range(1, count + 1)))] * 3
    x = torch.ones(5, dtype=torch.bfloat16)
    dist.all_reduce(x)
    assert x.float().tolist() == [count] * 5
    return checks


def _objects_and_messages(rank: int, count: int) -> None:
    names: list[Any] = []
    dist.all_gather_object(names, {"rank": rank, "text": "x" * rank * 5000})
    assert [len(each["text"]) // 5000 for each in names] == list(range(count))
    given = [rank, "of rank"]
    dist.broadcast_object_list(given, src=1)
    assert given == [1, "of rank"]
    out = [None]
    dist.scatter_object_list(out, [f"for {m}" for m in range(count)] if rank == 0 else None)
    assert out == [f"for {rank}"]
    if rank == 0:
        large = torch.arange(100_000.0)
        work = dist.isend(large, 1)
        dist.send(torch.tensor([1.0]), 1, tag=7)
        work.wait()
    if rank == 1:
        small, large = torch.empty(1), torch.empty(100_000)
        assert dist.recv(small, 0, tag=7) == 0 and small.item() == 1
        assert dist.recv(large) == 0 and large[-1].item() == 99_999
    halves = dist.new_group([1, 0]), dist.new_group([count - 1])
    if rank < 2:
        x = torch.ones(2)
        dist.all_reduce(x, group=halves[0])
        assert x.tolist() == [2, 2] and dist.get_rank(halves[0]) == rank
    assert (halves[1] == dist.GroupMember.NON_GROUP_MEMBER) == (rank != count - 1)
    assert dist.all_reduce(torch.ones(1), group=halves[1]) is None
    assert (dist.get_backend(), dist.get_world_size(), dist.get_rank()) == ("gloo", count, rank)
    assert dist.group.WORLD.size() == count


def _program(rank: int, count: int) -> Any:
    checks = _collectives(rank, count)
    _objects_and_messages(rank, count)
    return checks


def test_two_and_three_ranks_exchange_what_they_should() -> None:
    for count in (2, 3):
        assert min(checked(count, _program)) > 15 * len(SIZES)


def _disagree(rank: int, count: int) -> Any:
    said = []
    calls: list[Any] = [
        (lambda: dist.all_reduce(torch.ones(3)), lambda: dist.all_reduce(torch.ones(4))),
        (lambda: dist.all_reduce(torch.ones(3)), lambda: dist.all_reduce(torch.ones(3).double())),
        (lambda: dist.barrier(), lambda: dist.broadcast(torch.ones(1), 0)),
        (lambda: dist.broadcast(torch.ones(1), 0), lambda: dist.broadcast(torch.ones(1), 1)),
        (lambda: dist.new_group([0]), lambda: dist.new_group([1])),
    ]
    for first, second in calls:
        with pytest.raises(dist.DistBackendError) as raised:
            (first if rank == 0 else second)()
        said.append(str(raised.value))
        dist.barrier()
    return said


def _wrong(rank: int, count: int) -> str:
    """What a rank is told that calls nothing in vain."""
    with pytest.raises(ValueError, match="does not hold 2 times"):
        dist.all_gather_into_tensor(torch.ones(3), torch.ones(2))
    with pytest.raises(RuntimeError, match=r"ReduceOp\.BAND"):
        dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND)
    with pytest.raises(ValueError, match="not part of group"):
        dist.broadcast(torch.ones(1), 7)
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group()
    with pytest.raises(RuntimeError, match=r"all_reduce\(\) needs the value"):
        torch.compile(lambda x: dist.all_reduce(x), fullgraph=True)(torch.ones(2))
    group = dist.new_group([0, 1], timeout=timedelta(seconds=0.3))
    if rank == 0:
        time.sleep(0.8)
        return ""
    with pytest.raises(dist.DistBackendError) as raised:
        dist.barrier(group)
    return str(raised.value)


def test_ranks_that_do_not_agree_are_all_told_what_each_called() -> None:
    said = checked(2, _disagree)
    assert said[0] == said[1] and len(said[0]) == 5
    first = said[0][0]
    for part in ("rank 0: all_reduce(f32[3], sum)", "rank 1: all_reduce(f32[4], sum)", "try: have"):
        assert part in first
    assert first.count("test_collectives.py:") == 2
    assert "f64[3]" in said[0][1] and "barrier()" in said[0][2] and "src=1" in said[0][3]


def test_bad_arguments_and_late_ranks() -> None:
    _, said = checked(2, _wrong)
    assert "rank 1 was in barrier() at test_collectives.py" in said
    assert "nothing came of rank 0" in said and "timeout=" in said


def _fails(rank: int, count: int, how: str) -> None:
    dist.all_reduce(torch.ones(50_000))
    if rank == 1:
        if how == "raises":
            raise ValueError("no luck")
        if how == "dies":
            os._exit(3)
        if how == "leaves":
            dist.destroy_process_group()
            return
    dist.all_reduce(torch.ones(50_000))


@pytest.mark.parametrize("how", ["raises", "dies", "leaves"])
def test_a_rank_that_is_gone_ends_the_others_at_once(how: str) -> None:
    kept, gone = on_ranks(2, _fails, how)
    assert isinstance(kept, Failed)
    assert "rank 0 was in all_reduce(f32[50000], sum) at test_collectives.py" in str(kept)
    reason = "it called destroy_process_group()" if how == "leaves" else "its process ended"
    assert f"rank 1 is gone: {reason}" in str(kept)
    assert {"raises": isinstance(gone, Failed), "dies": gone == 3, "leaves": gone is None}[how]


def test_one_process_alone() -> None:
    """`init_process_group("mpi")` without a launcher is a world of one."""
    assert dist.is_available() and not dist.is_initialized() and dist.group.WORLD is None
    with pytest.raises(ValueError, match="has not been initialized"):
        dist.get_rank()
    with pytest.raises(ValueError, match="not here"):
        dist.init_process_group("nccl")
    with pytest.raises(ValueError, match="environment variable RANK"):
        dist.init_process_group("gloo")
    (result,) = checked(1, _alone)
    assert result == [1.0, 1.0]


def _alone(rank: int, count: int) -> Any:
    dist.destroy_process_group()
    dist.init_process_group("mpi")
    x = torch.ones(2)
    dist.all_reduce(x)
    dist.barrier()
    return x.tolist()


def test_stores(tmp_path: Path) -> None:
    served = dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=timedelta(seconds=5))
    client = dist.TCPStore("127.0.0.1", served.port, timeout=timedelta(seconds=5))
    stores = [
        (served, client),
        (dist.FileStore(str(tmp_path / "store"), 2), dist.FileStore(str(tmp_path / "store"), 2)),
        (dist.HashStore(),) * 2,
        (dist.PrefixStore("a", served), dist.PrefixStore("a", client)),
    ]
    for store, other in stores:
        store.set("k", "v")
        assert other.get("k") == b"v" and other.add("n", 2) == 2 and store.add("n", 3) == 5
        assert store.compare_set("k", "v", "w") == b"w" and other.compare_set("k", "v", "x") == b"w"
        assert other.check(["k", "n"]) and not store.check(["k", "absent"])
        timer = threading.Timer(0.05, lambda store=store: store.set("late", b"\0\1"))
        timer.start()
        assert other.get("late") == b"\0\1"
        timer.join()
        assert store.delete_key("k") and not other.delete_key("k") and not other.check(["k"])
        with pytest.raises(dist.DistStoreError, match=r"absent' after 0\.05 s"):
            other.wait(["absent"], timedelta(seconds=0.05))
    assert served.check(["a/n"])
    with pytest.raises(dist.DistNetworkError, match="cannot listen"):
        dist.TCPStore("127.0.0.1", served.port, is_master=True)
    served.close()
    with pytest.raises(dist.DistNetworkError, match="is gone"):
        client.get("n")

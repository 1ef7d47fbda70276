"""Two ranks beside PyTorch's, which talk by gloo: collectives, losses and weights of training."""

from __future__ import annotations

import importlib
import multiprocessing
import tempfile
from typing import Any

import numpy as np
import pytest

from tests.frontend.distributed.ranks import CACHE

RNG = np.random.default_rng(0)
X = RNG.standard_normal((16, 6)).astype(np.float32)
Y = RNG.integers(0, 3, 16)


def _program(t: Any, rank: int) -> list[Any]:
    """What both are to do; what comes of it."""
    dist, said = t.distributed, []
    x = t.arange(6.0).reshape(2, 3) * (rank + 1)
    for op in ("SUM", "PRODUCT", "MIN", "MAX"):
        y = x.clone()
        dist.all_reduce(y, op=getattr(dist.ReduceOp, op))
        said.append(y.tolist())
    outs = [t.zeros(2, 3) for _ in range(2)]
    dist.all_gather(outs, x)
    said.append([out.tolist() for out in outs])
    dist.broadcast(x, src=1)
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    said += [x.tolist(), dist.get_backend(), dist.get_world_size()]
    names = [None, None]
    dist.all_gather_object(names, f"rank {rank}")
    said += names
    t.manual_seed(0)
    parallel = importlib.import_module(f"{t.__name__}.nn.parallel")
    layers = [t.nn.Linear(6, 8), t.nn.BatchNorm1d(8), t.nn.ReLU(), t.nn.Linear(8, 3)]
    net = t.nn.Sequential(*layers)
    with t.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(t.tensor(np.random.default_rng(i).standard_normal(tuple(p.shape)) * 0.3))
    model = parallel.DistributedDataParallel(net)
    optimizer = t.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    sampler = t.utils.data.distributed.DistributedSampler(range(16), shuffle=False)
    rows = list(sampler)
    said.append(rows)
    x, y = t.tensor(X[rows]), t.tensor(Y[rows])
    for step in range(6):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        if step == 3:
            with model.no_sync():
                t.nn.functional.cross_entropy(model(x[:4]), y[:4]).backward()
        loss = t.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        said.append(loss.item())
    said.append({name: value.tolist() for name, value in model.state_dict().items()})
    return said


def _rank(name: str, rank: int, path: str, pipe: Any) -> None:
    import os

    os.environ["GRAPHC_CACHE"] = CACHE.name
    t = importlib.import_module(name)
    if name == "torch":
        t.set_num_threads(1)
    store = t.distributed.FileStore(path, 2)
    t.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    pipe.send(_program(t, rank))
    t.distributed.destroy_process_group()


def _both(name: str) -> list[Any]:
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        pipes = [fork.Pipe(duplex=False) for _ in range(2)]
        ranks = [
            fork.Process(target=_rank, args=(name, rank, f"{folder}/store", pipes[rank][1]))  # type: ignore[attr-defined]
            for rank in range(2)
        ]
        for process in ranks:
            process.start()
        said = [reader.recv() if reader.poll(60) else None for reader, _ in pipes]
        for process in ranks:
            process.join(10)
            process.kill()
        return said


def test_two_ranks_do_what_those_of_pytorch_do() -> None:
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    ours, theirs = _both("frontend"), _both("torch")
    assert None not in ours and None not in theirs
    for mine, other in zip(ours, theirs):
        assert len(mine) == len(other) == 18
        for one, two in zip(mine[:-1], other[:-1]):
            assert one == two if not isinstance(one, float) else one == pytest.approx(two, abs=1e-5)
        assert mine[-1].keys() == other[-1].keys()
        for key, value in mine[-1].items():
            np.testing.assert_allclose(value, other[-1][key], atol=1e-5)

"""Tensors that processes share: `share_memory_`, queues, `spawn`, and training on one memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.multiprocessing as mp
from frontend import nn
from frontend.engine.tensors.shared_memory import LEAST

LARGE = LEAST // 4


def _train(index: int, model: Any, done: Any, received: Any) -> None:
    torch.set_eager_backend("numpy")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(30):
        optimizer.zero_grad()
        (model(torch.ones(1, 2)) - 3).square().sum().backward()
        optimizer.step()
    done.put((index, model.weight.detach(), torch.full((LARGE,), float(index)), torch.ones(2)))
    received.wait()
    if index == 1:
        raise ValueError("after training")


def test_processes_train_on_one_memory() -> None:
    model = nn.Linear(2, 1)
    assert model.share_memory() is model and model.weight.is_shared() and model.weight.is_leaf
    fork = mp.get_context("fork")
    queue, received = fork.SimpleQueue(), fork.Event()
    given = (model, queue, received)
    context = mp.start_processes(_train, given, nprocs=2, join=False, start_method="fork")
    came = {index: rest for index, *rest in (queue.get(), queue.get())}
    received.set()  # who sends a tensor lives until then
    with pytest.raises(mp.ProcessRaisedException, match=r"(?s)Process 1.*_train.*after training"):
        while not context.join():
            pass
    assert sorted(came) == [0, 1]
    assert abs(model(torch.ones(1, 2)).item() - 3) < 0.1
    weight, large, small = came[1]
    assert weight.is_shared() and large.is_shared() and not small.is_shared()
    assert large.tolist() == [1.0] * LARGE
    with torch.no_grad():
        model.weight.fill_(7)
    assert weight.tolist() == [[7.0, 7.0]]


SCRIPT = """
import os, signal
import frontend.multiprocessing as mp
from frontend import Tensor, nn, ones, zeros

def child(index, shared, large):
    assert large.sum() == 1 << 17 and large.requires_grad
    shared[index] = index + 1
    if index == 1:
        os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    shared = zeros(3).share_memory_()
    try:
        mp.spawn(child, (shared[1:], nn.Parameter(ones(1 << 17))), nprocs=2)
    except mp.ProcessExitedException as error:
        print(shared.tolist(), error.error_index, error.signal_name)
"""


@pytest.mark.slow
def test_processes_that_are_spawned_get_the_same_memory(tmp_path: Path) -> None:
    import subprocess

    script = tmp_path / "script.py"
    script.write_text(SCRIPT, "utf-8")
    command = [sys.executable, str(script)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.stdout == "[0.0, 1.0, 2.0] 1 SIGKILL\n", result.stdout + result.stderr


def test_what_is_shared_and_what_cannot_be() -> None:
    x = torch.arange(6.0)
    assert not x.is_shared()
    version = x._version
    assert x.share_memory_() is x and x.is_shared() and x.tolist() == [0, 1, 2, 3, 4, 5]
    assert x.untyped_storage().is_shared() and x[2:].is_shared() and x._version == version
    assert x.share_memory_() is x and not x.clone().is_shared() and not (x + 1).is_shared()
    doubled = torch.compile(lambda x: x.mul_(2))
    doubled(x)
    assert x.tolist() == [0, 2, 4, 6, 8, 10] and x.is_shared()
    y = torch.ones(4)
    with pytest.raises(RuntimeError, match="of a view"):
        y[1:].share_memory_()
    y.share_memory_()
    assert torch.zeros(0).share_memory_().is_shared()
    with pytest.raises(ValueError, match="strategy"):
        mp.set_sharing_strategy("pigeons")
    np.testing.assert_array_equal(y.numpy(), np.ones(4))


class Rows(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        return torch.full((LARGE,), float(i)), i


def test_workers_of_a_loader_hand_large_batches_over_by_shared_memory() -> None:
    loader = torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=1)
    batches = [(x.is_shared(), x[:, 0].tolist(), i.is_shared()) for x, i in loader]
    assert batches == [(True, [0.0, 1.0], False), (True, [2.0, 3.0], False)]

"""Ranks of which one fails: whatever it does, all end within seconds, those that are left say who
is gone or what was called, and the checkpoint that rank 0 writes is whole.

A case is run by forks of this process over the local transport, or, where it is installed, by
mpiexec over MPI.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.frame import Broken, Fuzzer

STEPS = 6
LIMIT = 10.0
"""Seconds from the fault to the end of all."""
WHOLE = 120.0
"""Seconds of a run in which there is no fault yet: processes start, and may compile."""
MODES = ("eager", "whole", "shares", "model")
"""How steps run: each op by itself; compiled as a whole; that with `set_deterministic`; a compiled
model with it."""
IN_SHARES = ("shares", "model")
FAULTS = ("none", "raise", "kill", "skip", "shape", "dtype", "other", "exit", "quit", "destroy")
SEEN = ("is gone", "do not call the same collective", "BAD TERMINATION", "ended by")
KINDS = ("gradients", "sum", "objects", "barrier")


@dataclass(frozen=True)
class Case:
    """`count` ranks, of which `victim` has a fault at step `step`, before the exchange `kind` of
    it; one that is killed lives `delay` seconds longer. `mode`: how steps run."""

    transport: str
    mode: str
    count: int
    victim: int
    step: int
    kind: str
    fault: str
    delay: float


def draw(random: np.random.Generator, size: int) -> Case:
    mode = MODES[int(random.integers(len(MODES)))]
    count = 2 if mode in IN_SHARES else int(random.integers(2, 4))
    return Case(
        "mpi" if random.integers(8) == 0 else "local", mode, count, int(random.integers(count)),
        int(random.integers(STEPS)), KINDS[int(random.integers(len(KINDS)))],
        FAULTS[int(random.integers(len(FAULTS)))], float(random.uniform(0, 0.01)),
    )  # fmt: skip


def train(case: Case, folder: Path) -> None:
    """What each rank does."""
    import frontend as torch
    import frontend.distributed as dist
    from frontend.nn.parallel import DistributedDataParallel

    torch.set_eager_backend("numpy")  # compiles nothing
    rank = dist.get_rank()
    torch.manual_seed(rank)
    net: Any = torch.nn.Linear(40, 300)
    model = DistributedDataParallel(torch.compile(net) if case.mode == "model" else net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if case.mode in IN_SHARES:
        dist.set_deterministic(True, shares=4)
    learn = partial(learned, model, optimizer)
    call = torch.compile(learn) if case.mode in ("whole", "shares") else learn
    call(torch.ones(4, 40))  # no fault comes while others compile: that takes as long as it takes
    for step in range(STEPS):
        for kind in KINDS:
            if rank == case.victim and (step, kind) == (case.step, case.kind):
                (folder / "fault").touch()
                if not fault(case):
                    continue
            if kind == "gradients":
                before = net.weight.detach().clone()
                try:
                    call(torch.ones(4, 40) * (rank + 1))
                except BaseException:
                    if not torch.equal(before, net.weight):
                        print("a step that failed has changed weights", file=sys.stderr)
                    raise
            elif kind == "sum":
                dist.all_reduce(torch.ones(5000))
            elif kind == "objects":
                dist.all_gather_object([], {"step": step})
            else:
                dist.barrier()
        if rank == 0:
            torch.save({"step": step, "model": net.state_dict()}, folder / "checkpoint.pt")


def learned(model: Any, optimizer: Any, x: Any) -> None:
    """One step."""
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()


def fault(case: Case) -> bool:
    """Do what is wrong; whether the exchange then follows."""
    import frontend as torch
    import frontend.distributed as dist

    if case.fault == "raise":
        raise ValueError("the fault")
    if case.fault == "kill":
        kill = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
        threading.Timer(case.delay, kill).start()
    elif case.fault == "skip":
        return False
    elif case.fault == "exit":
        sys.exit(0)
    elif case.fault == "quit":
        os._exit(0)
    elif case.fault == "destroy":
        dist.destroy_process_group()
    elif case.fault == "shape":
        dist.all_reduce(torch.ones(3))
    elif case.fault == "dtype":
        dist.all_reduce(torch.ones(5000, dtype=torch.float64))
    elif case.fault == "other":
        dist.broadcast(torch.ones(5000), src=0)
    return True


def _child(case: Case, rank: int, folder: Path) -> None:
    import frontend.distributed as dist

    sys.stderr = open(folder / f"stderr{rank}", "w", encoding="utf-8")  # noqa: SIM115
    os.dup2(sys.stderr.fileno(), 2)
    store = dist.FileStore(str(folder / "store"), case.count)
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=case.count, timeout=timedelta(seconds=60)
    )
    train(case, folder)
    dist.destroy_process_group()


def _local(case: Case, folder: Path) -> list[Any]:
    """Exit codes; None of ranks that did not end."""
    import frontend.distributed.rendezvous
    import frontend.nn.parallel.distributed  # noqa: F401  (before the fork)

    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=_child, args=(case, r, folder)) for r in range(case.count)]  # type: ignore[attr-defined]
    for process in ranks:
        process.start()
    _wait(folder, lambda: all(process.exitcode is not None for process in ranks))
    codes = [process.exitcode for process in ranks]
    for process in ranks:
        process.kill()
    return codes


def _mpi(case: Case, folder: Path) -> list[Any]:
    mpiexec = Path(sys.executable).parent / "mpiexec"
    command = [str(mpiexec) if mpiexec.exists() else "mpiexec", "-n", str(case.count)]
    command += [sys.executable, "-m", "tests.fuzz.ranks", json.dumps(asdict(case)), str(folder)]
    with open(folder / "stderr0", "w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
        _wait(folder, lambda: process.poll() is not None)
        code = process.poll()
        if code is None:
            process.kill()
        return [code]


def _wait(folder: Path, ended: Callable[[], bool]) -> None:
    """Wait until all have ended, or it takes too long."""
    end, seen = time.monotonic() + WHOLE, False
    while not ended() and time.monotonic() < end:
        if not seen and (folder / "fault").exists():
            end, seen = time.monotonic() + LIMIT, True
        time.sleep(0.01)


def check(case: Case) -> str:
    mpi = case.transport == "mpi" and find_spec("mpi4py") is not None
    folder = Path(tempfile.mkdtemp(prefix="graphc-fuzz-"))
    try:
        codes = (_mpi if mpi else _local)(case, folder)
        said = "".join(path.read_text("utf-8") for path in sorted(folder.glob("stderr*")))
        if None in codes:
            raise Broken(f"ranks {[r for r, c in enumerate(codes) if c is None]} hang\n{said}")
        failed = any(codes)
        if case.fault == "none" and failed:
            raise Broken(f"no fault, and codes {codes}\n{said}")
        # One that leaves, or is killed, ends all that need it; at the end nobody does.
        quiet = {"none", "skip", "exit", "quit", "destroy", "kill"}
        if case.fault not in quiet and not failed:
            raise Broken(f"nobody failed: {codes}\n{said}")
        others = not mpi and any(code for r, code in enumerate(codes) if r != case.victim)
        if others and not any(text in said for text in SEEN):
            raise Broken(f"the others are told nothing: {said}")
        if "has changed weights" in said:
            raise Broken(f"a step that failed is half done: {said}")
        _check_checkpoint(folder, case)
        through = "" if failed else ", all through"
        return f"{'mpi' if mpi else 'local'}, {case.mode}: {case.fault}{through}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_checkpoint(folder: Path, case: Case) -> None:
    import frontend as torch

    path = folder / "checkpoint.pt"
    if not path.exists():
        if case.step:
            raise Broken("there is no checkpoint")
        return
    content = torch.load(path)
    if content["model"]["weight"].shape != (300, 40) or content["step"] < case.step - 1:
        raise Broken(f"the checkpoint is of step {content['step']}")


def program(case: Case) -> str:
    return f"from tests.fuzz.ranks import Case, check\nprint(check({case!r}))"


FUZZER = Fuzzer("ranks", draw, check, program)

if __name__ == "__main__":  # a rank that mpiexec started
    import frontend.distributed as dist

    dist.init_process_group("mpi", timeout=timedelta(seconds=60))
    train(Case(**json.loads(sys.argv[1])), Path(sys.argv[2]))
    dist.destroy_process_group()

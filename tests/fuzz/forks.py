"""Forks at drawn lines of what another thread does for the first time in a process: a compile, a
training step, backward on native kernels.

The child has to finish a compile and an eager step of its own, on tensors that the other thread may
have been tracing, within `SECONDS`; the parent finishes what it was at. A case is what the thread
does and the line, counted from its beginning, before which it is forked.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.frame import Broken, Fuzzer

Case = tuple[str, int]
KINDS = ("compile", "train", "native")
LINES = 1_000_000  # of a first compile, imports included
SECONDS = 60


def draw(random: np.random.Generator, size: int) -> Case:
    """Early lines more often: they trace and import."""
    return KINDS[int(random.integers(3))], int(math.exp(random.uniform(4, math.log(LINES))))


def check(case: Case) -> str:
    kind, line = case
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-c", f"from tests.fuzz.forks import main; main({kind!r}, {line})"],
            cwd=Path(__file__).parents[2], env={**os.environ, "GRAPHC_CACHE": cache},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3 * SECONDS,
        )  # fmt: skip
    if done.returncode:
        raise Broken(f"{done.stdout[-2000:]} (ended with {done.returncode})")
    return done.stdout.strip().splitlines()[-1]


def main(kind: str, line: int) -> None:
    """In a process of its own: fork at a line of the thread, and see both to their ends."""
    import frontend as torch

    torch.manual_seed(0)
    if kind == "native":
        torch.set_eager_backend("native")
    x, layer = torch.randn(8, 8), torch.nn.Linear(8, 8)
    expected = (x.numpy() + 1).sum()
    there, forked = threading.Event(), threading.Event()
    left, errors = [line], []

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if there.is_set():
            return None
        left[0] -= event == "line"
        if left[0] <= 0:
            sys.settrace(None)
            there.set()
            forked.wait(0.2)  # not until it has forked: the fork may wait for this thread
        return trace

    def work() -> None:
        sys.settrace(trace)
        try:
            first_steps(torch, kind, layer, x)
        except BaseException as error:
            errors.append(error)
        finally:
            sys.settrace(None)
            there.set()

    thread = threading.Thread(target=work)
    thread.start()
    there.wait()
    reached = left[0] <= 0
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)  # ends it
        code = 1
        try:
            np.testing.assert_allclose((x + 1).sum().item(), expected, rtol=1e-5)
            torch.compile(lambda a: (a - 3).exp().mean(0), fullgraph=True)(x)
            layer(x).square().mean().backward()
            torch.compile(layer, fullgraph=True)(x)
            code = 0
        finally:
            os._exit(code)
    forked.set()
    _, status = os.waitpid(child, 0)
    thread.join()
    if status or errors:
        sys.exit(f"the child of {kind} at line {line} ended with {status}; in the parent: {errors}")
    print("forked" if reached else "over before")


def first_steps(torch: Any, kind: str, layer: Any, x: Any) -> None:
    """What the thread does."""
    if kind == "compile":
        torch.compile(lambda a: (layer(a) * 2).sin().sum(1) + a.mean(), fullgraph=True)(
            x
        ).sum().backward()
    elif kind == "train":
        optimizer = torch.optim.Adam(layer.parameters())

        def step(a: Any) -> Any:
            loss = layer(a).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        torch.compile(step, fullgraph=True)(x)
    else:
        torch.nn.functional.layer_norm(layer(x), (8,)).softmax(1).square().sum().backward()


def program(case: Case) -> str:
    return f"from tests.fuzz import forks\nforks.check({case!r})"


FUZZER = Fuzzer("forks", draw, check, program)

"""Processes with a thread pool: forks, the end, interrupts, one processor."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PRELUDE = """
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # else a background job ignores it
import numpy as np
import graphc
from graphc import ops
from graphc.schedule import threads as model
model.STEP_NS = model.PART_NS = 0.0
model.CALL_NS = -1e9
g = graphc.GraphBuilder("product")
x, y = (g.input(name, "f32[64,64]") for name in "xy")
graph = g.finish(ops.exp(x @ y * 0.01) @ y)
function = graphc.compile(graph, threads=2)
random = np.random.default_rng(0)
a, b = random.standard_normal((2, 64, 64)).astype(np.float32)
(expected,) = graphc.compile(graph, threads=1)(a, b)
right = lambda: np.array_equal(function(a, b)[0], expected)
assert right() and function.schedule.threads == 2
"""


def ran(code: str, before: str = "") -> str:
    # Python 3.12 warns of any fork of a process with threads.
    quiet = ["-W", "ignore::DeprecationWarning"]
    result = subprocess.run(
        [sys.executable, *quiet, "-c", before + PRELUDE + code], text=True, timeout=120,
        capture_output=True, env={**os.environ, "GRAPHC_CACHE": "off"},
    )  # fmt: skip
    assert result.returncode == 0, (result.returncode, result.stdout, result.stderr)
    assert not result.stderr, result.stderr
    return result.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_child_of_a_process_with_a_pool_makes_its_own() -> None:
    code = """
for _ in range(3):
    child = os.fork()
    if child == 0:
        good = all(right() for _ in range(20))
        sys.stdout.flush()
        os._exit(0 if good else 1)
    assert all(right() for _ in range(20))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("both")
"""
    assert ran(code) == "both\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_child_forked_while_a_call_has_the_pool() -> None:
    code = """
stop = False
def busy():
    while not stop:
        function(a, b)
other = threading.Thread(target=busy)
other.start()
import warnings
warnings.simplefilter("ignore")
for _ in range(5):
    child = os.fork()
    if child == 0:
        os._exit(0 if all(right() for _ in range(5)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop = True
other.join()
print("done")
"""
    assert ran(code) == "done\n"


@pytest.mark.slow
@pytest.mark.parametrize("pause", [0.0, 0.05])
def test_a_process_ends_with_workers_that_spin_or_sleep(pause: float) -> None:
    code = f"""
assert right()
time.sleep({pause})
import atexit
print("end")
"""
    assert ran(code) == "end\n"


@pytest.mark.slow
def test_calls_after_the_pool_has_ended_run_on_one_thread() -> None:
    code = """
from graphc.ir.handle import broadcast_to
from graphc.runtime import pool
import warnings
pool._at_exit()
assert right() and pool.CELL.size == 0
print("one")
"""
    assert ran(code) == "one\n"


@pytest.mark.slow
def test_an_interrupt_during_a_call_is_raised_when_it_returns() -> None:
    code = """
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    while True:
        function(a, b)
except KeyboardInterrupt:
    print("interrupted", right())
"""
    assert ran(code) == "interrupted True\n"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity")
def test_two_threads_on_one_processor_give_the_same_bits() -> None:
    code = """
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
fresh = graphc.compile(graph, threads=2)
assert all(np.array_equal(fresh(a, b)[0], expected) for _ in range(10))
print(graphc.compile(graph).schedule)
"""
    assert ran(code) == "threads 1: one processor is available\n"


WITHOUT_FUTEX = """
from graphc.runtime import pool
pool.SYSTEM_CALLS.clear()
"""
WITHOUT_FORK_HOOKS = """
import os
del os.fork, os.register_at_fork
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pause", [0.0, 0.02])
def test_workers_on_condition_variables_give_the_same_bits(pause: float) -> None:
    """Spinning and asleep; the process ends as with futexes."""
    code = f"""
assert "pthread_cond_wait" in pool._parking()
for _ in range(30):
    assert right()
    time.sleep({pause})
print(pool.CELL.size)
"""
    assert ran(code, WITHOUT_FUTEX) == "2\n"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_condition_variables_in_a_child() -> None:
    code = """
child = os.fork()
if child == 0:
    os._exit(0 if all(right() for _ in range(20)) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(right())
"""
    assert ran(code, WITHOUT_FUTEX) == "True\n"


@pytest.mark.slow
def test_a_system_without_hooks_for_forks() -> None:
    assert ran("import frontend\nprint(right())", WITHOUT_FORK_HOOKS) == "True\n"

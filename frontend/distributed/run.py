"""`python -m frontend.distributed.run --nproc-per-node N SCRIPT ARGS`: runs a script as N ranks of
this machine, as torchrun does; the script may import torch, which is the frontend.

Where mpi4py and an mpiexec are installed the ranks are MPI's, else processes of this one, which
talk by shared memory. Where one fails the others are ended, and with --max-restarts R all are
started again, up to R times: scripts go on from their last checkpoint. Several machines are
mpiexec's business: mpiexec -n N -hosts A,B python -m frontend.run SCRIPT.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from frontend.distributed.mpi import is_installed
from frontend.distributed.tcp_store import TCPStore

PAUSE = 0.05  # seconds between two looks at the processes
GRACE = 5.0
"""Seconds that the other ranks have to say what they were at, when one has failed; then they are
told to end, and after as long again they are killed."""

IGNORED = (
    "node-rank", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "role", "log-dir", "tee",
    "monitor-interval", "start-method", "redirects", "local-addr",
)  # fmt: skip
"""Options of torchrun that change nothing on one machine."""


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(
        prog="python -m frontend.distributed.run", description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip

    def add(name: str, **details: Any) -> None:
        options.add_argument(f"--{name}", f"--{name.replace('-', '_')}", **details)

    add("nproc-per-node", default="1", metavar="N", help="ranks; auto: one for each processor")
    add("max-restarts", type=int, default=0, metavar="R", help="how often all are started again")
    add("transport", choices=("mpi", "local"), help="mpi where it is installed, else local")
    add("master-addr", default="127.0.0.1", help=argparse.SUPPRESS)
    add("master-port", type=int, default=0, metavar="P", help="of the store; any that is free")
    add("nnodes", default="1", help=argparse.SUPPRESS)
    options.add_argument("-m", "--module", action="store_true", help="SCRIPT names a module")
    for name in IGNORED:
        add(name, help=argparse.SUPPRESS)
    add("standalone", action="store_true", help=argparse.SUPPRESS)
    add("use-env", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("script", metavar="SCRIPT")
    options.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS")
    return options


def count_of(text: str) -> int:
    """How many ranks are asked for. Raises ValueError."""
    if text in ("auto", "cpu"):
        from graphc.runtime.processors import available

        return available()
    count = int(text) if text.isdecimal() else 0
    if count < 1:
        raise ValueError(f"--nproc-per-node {text}: a number of ranks, or auto")
    return count


class Launcher:
    """What is started, and with which environment."""

    def __init__(self, chosen: argparse.Namespace):
        self.count = count_of(chosen.nproc_per_node)
        if chosen.nnodes not in ("1", "1:1"):
            raise ValueError(
                f"--nnodes {chosen.nnodes}: this starts ranks on one machine; several take "
                "mpiexec -n N -hosts A,B python -m frontend.run SCRIPT"
            )
        self.mpiexec = None if chosen.transport == "local" else _mpiexec()
        if chosen.transport == "mpi" and self.mpiexec is None:
            raise ValueError("--transport mpi: pip install 'graphc[mpi]', which has an mpiexec")
        self.restarts = chosen.max_restarts
        self.address, self.port = chosen.master_addr, chosen.master_port
        module = ["-m"] if chosen.module else []
        run = [sys.executable, "-m", "frontend.run"]
        self.command = [*run, *module, chosen.script, *chosen.arguments]
        self.identity = uuid.uuid4().hex

    def environment(self, attempt: int, port: int) -> dict[str, str]:
        return {
            **os.environ, "MASTER_ADDR": self.address, "MASTER_PORT": str(port),
            "LOCAL_WORLD_SIZE": str(self.count), "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1",
            "ROLE_NAME": "default", "ROLE_WORLD_SIZE": str(self.count),
            "TORCHELASTIC_RUN_ID": self.identity, "TORCHELASTIC_RESTART_COUNT": str(attempt),
            "TORCHELASTIC_MAX_RESTARTS": str(self.restarts),
        }  # fmt: skip

    def attempt(self, number: int) -> int:
        """Start the ranks and wait for them; the exit code."""
        if self.mpiexec is not None:
            command = [self.mpiexec, "-n", str(self.count), *self.command]
            started = subprocess.Popen(command, env=self.environment(number, self.port or 29500))
            return watched({"mpiexec": started})
        store = TCPStore(self.address, self.port, is_master=True, wait_for_workers=False)
        try:
            environment = self.environment(number, store.port)
            environment |= {
                "WORLD_SIZE": str(self.count), "TORCHELASTIC_USE_AGENT_STORE": "True",
            }  # fmt: skip
            ranks = {}
            for rank in range(self.count):
                own = {name: str(rank) for name in ("RANK", "LOCAL_RANK", "ROLE_RANK")}
                ranks[f"rank {rank}"] = subprocess.Popen(self.command, env={**environment, **own})
            return watched(ranks)
        finally:
            store.close()


def _mpiexec() -> str | None:
    """The mpiexec beside this Python, or on the path; None without mpi4py."""
    if not is_installed():
        return None
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def watched(processes: dict[str, Any]) -> int:
    """Wait for processes: 0 when all have ended well; the code of the first that failed, once the
    others have ended, by themselves or not. A signal to end is handed on."""
    before = {}

    def hand_on(number: int, frame: Any) -> None:
        for process in processes.values():
            if process.poll() is None:
                process.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        before[number] = signal.signal(number, hand_on)
    failed: tuple[str, int] | None = None
    since = 0.0
    try:
        while any(process.poll() is None for process in processes.values()):
            if failed is None and (failed := _failed(processes)) is not None:
                since = time.monotonic()
            if failed is not None:
                _end(processes, time.monotonic() - since)
            time.sleep(PAUSE)
    except KeyboardInterrupt:
        since = time.monotonic()
        while any(process.poll() is None for process in processes.values()):
            _end(processes, time.monotonic() - since)
            time.sleep(PAUSE)
        return 130
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    failed = failed or _failed(processes)
    if failed is None:
        return 0
    name, code = failed
    said = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    print(f"python -m frontend.distributed.run: {name} {said}", file=sys.stderr)
    return code if code > 0 else 128 - code


def _failed(processes: dict[str, Any]) -> tuple[str, int] | None:
    """A process that failed and its code: one that was killed rather than one that saw it."""
    codes = [(n, process.poll()) for n, process in processes.items()]
    return min(((n, code) for n, code in codes if code), key=lambda pair: pair[1], default=None)


def _end(processes: dict[str, Any], after: float) -> None:
    for process in processes.values():
        if process.poll() is None and after > GRACE:
            if after > 2 * GRACE:
                process.kill()
            else:
                process.terminate()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; the exit code."""
    options = parser()
    chosen = options.parse_args(arguments)
    try:
        launch = Launcher(chosen)
    except ValueError as error:
        options.error(str(error))
    for attempt in range(launch.restarts + 1):
        code = launch.attempt(attempt)
        if code in (0, 130) or attempt == launch.restarts:
            return code
        left = launch.restarts - attempt
        print(f"all ranks are started again ({left} more times at most)", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

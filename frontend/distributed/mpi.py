"""The transport over MPI (mpi4py), of one machine or many: processes that mpiexec started.

in : the environment of mpiexec
out: a Transport

Only MPI's messages between two processes are used: what is added up, in which order, and what is
checked is the same as on the local transport. mpi4py is imported where a transport is made.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from frontend.distributed.errors import DistBackendError
from frontend.distributed.transport import LONGEST_REASON, SPINNING

LEAVING = 0
"""The channel on which a rank says that it leaves; no other message has it."""
GRACE = 3.0
"""Seconds that other ranks have to see by themselves that one failed, before MPI ends them."""

VARIABLES = (
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"),
)  # fmt: skip
"""What mpiexec of MPICH (and of those made from it) and of Open MPI set: rank, size, and the same
among the processes of the machine."""
TORCH_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def started_by_mpiexec(environment: Mapping[str, str] = os.environ) -> dict[str, str] | None:
    """PyTorch's variables for a process that mpiexec started; None for another."""
    for names in VARIABLES:
        if names[0] in environment and names[1] in environment:
            values = [environment.get(name) for name in names]
            known = {k: v for k, v in zip(TORCH_VARIABLES, values) if v is not None}
            return {"LOCAL_RANK": known["RANK"], "LOCAL_WORLD_SIZE": known["WORLD_SIZE"], **known}
    return None


def tell_script() -> None:
    """Set the variables that torchrun sets, where mpiexec started this process and nothing else set
    them: scripts and libraries read them."""
    values = started_by_mpiexec()
    if values is None:
        return
    for name, value in {**values, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}.items():
        os.environ.setdefault(name, value)


def is_installed() -> bool:
    """Whether mpi4py is there."""
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


class _Sent:
    """A message of MPI; its bytes are kept until it is done."""

    __slots__ = ("data", "request")

    def __init__(self, request: Any, data: Any):
        self.request, self.data = request, data

    @property
    def done(self) -> bool:
        return bool(self.request.Test())


class MPITransport:
    """The ranks of MPI's world. Raises RuntimeError where mpi4py is not installed."""

    name = "mpi"

    def __init__(self, timeout: float) -> None:
        try:
            from mpi4py import MPI
        except ImportError as error:
            raise RuntimeError(
                "this process was started by mpiexec, and mpi4py cannot be imported "
                f"({error}): pip install 'graphc[mpi]', or mpi4py with the MPI of the system"
            ) from error
        self.MPI = MPI
        self.comm = self._own_communicator(timeout)
        self.rank, self.size = self.comm.rank, self.comm.size
        self.left: dict[int, str] = {}
        self.most = self.comm.Get_attr(MPI.TAG_UB)
        self._owner = os.getpid()
        self._goodbyes = [
            (other, box, self.comm.Irecv([box, MPI.BYTE], other, LEAVING))
            for other in range(self.size)
            if other != self.rank
            for box in [np.zeros(LONGEST_REASON, np.uint8)]
        ]

    def _own_communicator(self, timeout: float) -> Any:
        comm, request = self.MPI.COMM_WORLD.Idup()
        end = time.monotonic() + timeout
        while not request.Test():
            if time.monotonic() > end:
                raise DistBackendError(
                    f"not all {self.MPI.COMM_WORLD.size} processes of mpiexec came within "
                    f"{timeout:g} s",
                    hint="see whether each calls init_process_group()",
                )
            time.sleep(1e-3)
        return comm

    def send(self, peer: int, channel: int, data: Any) -> _Sent:
        return _Sent(self.comm.Isend([data, self.MPI.BYTE], peer, channel), data)

    def receive(self, peer: int, channel: int, into: Any) -> _Sent:
        return _Sent(self.comm.Irecv([into, self.MPI.BYTE], peer, channel), into)

    def waiting(self, channel: int) -> int | None:
        status = self.MPI.Status()
        return status.source if self.comm.Iprobe(tag=channel, status=status) else None

    def poll(self, idle: float) -> None:
        if idle < SPINNING:
            os.sched_yield()
            return
        # Messages of MPI move only inside of its calls; asking for goodbyes is one.
        for other, box, request in self._goodbyes:
            if other not in self.left and request.Test():
                self.left[other] = bytes(box).rstrip(b"\0").decode(errors="replace")
        time.sleep(2e-5 if idle < 0.1 else 1e-3)

    def leave(self, reason: str) -> None:
        if self._owner != os.getpid() or self.MPI.Is_finalized():
            return
        box = np.zeros(LONGEST_REASON, np.uint8)
        said = reason.encode()[:LONGEST_REASON]
        box[: len(said)] = np.frombuffer(said, np.uint8)
        sent = [self.send(other, LEAVING, box) for other, _, _ in self._goodbyes]
        end = time.monotonic() + 1.0
        while not all(message.done for message in sent) and time.monotonic() < end:
            time.sleep(1e-3)

    def end(self, status: int) -> None:
        """Give the others the time to say what they were at, then have MPI end all."""
        if self._owner != os.getpid() or self.MPI.Is_finalized():
            return
        end = time.monotonic() + GRACE
        while len(self.left) < self.size - 1 and time.monotonic() < end:
            self.poll(1.0)
        self.comm.Abort(status)

    def close(self) -> None:
        """Nothing: MPI ends with the process, once all have come so far."""
        if self._owner == os.getpid() and not self.MPI.Is_finalized():
            for _, _, request in self._goodbyes:
                if request != self.MPI.REQUEST_NULL:
                    request.Cancel()
                    request.Free()
            self._goodbyes = []

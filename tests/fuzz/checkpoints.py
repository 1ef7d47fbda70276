"""Damaged and hostile checkpoints: loaded or refused, in time and memory in proportion to the file,
and a good file loads right afterwards.

A case is a file (cut, changed bytes, parts of others) or a pickle that is put into a whole zip file
(its opcodes left out, doubled, swapped, with other arguments), so that damage gets past checksums,
or one that makes much of little (amplifiers.py).
"""

from __future__ import annotations

import functools
import io
import pickle
import pickletools
import select
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz import amplifiers
from tests.fuzz.frame import Broken, Fuzzer, without_parts

SECONDS = 600.0
"""Of the wall's clock; load_server.py ends itself after its share of processor time."""
Case = tuple[str, bytes]  # "file", "pickle" or "amplifier", and its bytes

_NUMBERS = (0, 1, -1, 2, 3, 7, 255, 1 << 31, -(1 << 31), 1 << 40, (1 << 61) - 1, 1 << 62, 1 << 63)
_OPCODES = [op.code.encode("latin-1") for op in pickletools.opcodes if op.arg is None]


@functools.cache
def whole() -> tuple[bytes, ...]:
    """Good files to start from."""
    import frontend
    from frontend import nn

    x = frontend.arange(24.0).reshape(4, 6)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    objects: list[Any] = [
        {"x": x, "t": x.t(), "row": x[1], "n": [1, 2.5, None, True, "é", (1, ())]},
        model.state_dict(),
        {"w": nn.Parameter(frontend.ones(2)), "s": {1, 2}, "e": frontend.ones(1).expand(3, 4)},
        [np.arange(5), np.float32(2), np.array(["ab"]), b"bytes", frontend.Size([1, 2]), 1 + 2j],
        {(1, "a"): frontend.float16, "d": frontend.device("cpu"), "flags": x > 3},
    ]
    files = []
    for item in objects:
        buffer = io.BytesIO()
        frontend.save(item, buffer)
        files.append(buffer.getvalue())
    return (*files, older(files[0]), older(files[2]))


def program_of(file: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        return archive.read("archive/data.pkl")


def storages_of(file: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        names = [name for name in archive.namelist() if name.startswith("archive/data/")]
        return {name.removeprefix("archive/data/"): archive.read(name) for name in names}


def older(file: bytes) -> bytes:
    """The same in PyTorch's older format, for a file whose elements all have four bytes."""
    facts = {"protocol_version": 1001, "little_endian": True}
    head = [pickle.dumps(item, 2) for item in (0x1950A86A20F9469CFC6C, 1001, facts)]
    storages = storages_of(file)
    tail = [struct.pack("<q", len(data) // 4) + data for data in storages.values()]
    return b"".join([*head, program_of(file), pickle.dumps(list(storages), 2), *tail])


def zipped(program: bytes) -> bytes:
    """A whole file around a pickle."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", program)
        for key in "0123456789":
            archive.writestr(f"archive/data/{key}", bytes(range(200)))
    return buffer.getvalue()


def file_of(case: Case) -> bytes:
    kind, data = case
    return data if kind == "file" else zipped(data)


# -- drawing ---------------------------------------------------------------------------------------


def draw(random: np.random.Generator, size: int) -> Case:
    files = whole()
    file = files[int(random.integers(len(files)))]
    if random.random() < 0.2:
        return "amplifier", amplifiers.drawn(random, size)
    if random.random() < 0.4:
        return "file", _damaged(random, file, size)
    return "pickle", _reprogrammed(random, program_of(files[int(random.integers(5))]), size)


def _damaged(random: np.random.Generator, file: bytes, size: int) -> bytes:
    data = bytearray(file)
    for _ in range(size):
        at = int(random.integers(max(len(data), 1)))
        match int(random.integers(6)):
            case 0:
                del data[at:]
            case 1:
                data[at : at + 1] = (
                    bytes([data[at] ^ 1 << int(random.integers(8))]) if data else b""
                )
            case 2:
                data[at : at + 4] = random.bytes(4)
            case 3:
                del data[at : at + int(random.integers(1, 40))]
            case 4:
                data[at:at] = data[at : at + int(random.integers(1, 400))]
            case _:
                number = _NUMBERS[int(random.integers(len(_NUMBERS)))]
                data[at : at + 8] = (number % (1 << 64)).to_bytes(8, "little")
    return bytes(data)


def _operations(program: bytes) -> list[bytes]:
    starts = [position or 0 for _, _, position in pickletools.genops(program)]
    return [program[a:b] for a, b in zip(starts, [*starts[1:], len(program)])]


def _reprogrammed(random: np.random.Generator, program: bytes, size: int) -> bytes:
    operations = _operations(program)
    others = _operations(program_of(whole()[int(random.integers(5))]))
    for _ in range((size + 4) // 5):
        at = int(random.integers(len(operations)))
        match int(random.integers(6)):
            case 0:
                del operations[at]
            case 1:
                operations.insert(at, operations[int(random.integers(len(operations)))])
            case 2:
                other = int(random.integers(len(operations)))
                operations[at], operations[other] = operations[other], operations[at]
            case 3:
                operations.insert(at, _OPCODES[int(random.integers(len(_OPCODES)))])
            case 4:
                number = _NUMBERS[int(random.integers(len(_NUMBERS)))]
                operations[at] = f"I{number}\n".encode()
            case _:
                start = int(random.integers(len(others)))
                operations[at:at] = others[start : start + int(random.integers(1, 12))]
        operations = operations or [b"."]
    return b"".join(operations)


# -- checking --------------------------------------------------------------------------------------


class Server:
    """A process that loads what it is sent."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, data: bytes) -> str:
        """How loading ended. Raises Broken where it took the process or too long."""
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(len(data).to_bytes(4, "little") + data)
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], SECONDS)
        line = process.stdout.readline() if ready else b""
        if line:
            return line.decode().strip()
        self.close()
        raise Broken(
            "it took too long" if not ready else f"the process ended: {process.returncode}"
        )

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            script = Path(__file__).with_name("load_server.py")
            self._process = subprocess.Popen(
                [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        return self._process

    def close(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.communicate()


SERVER = Server()


def check(case: Case) -> str:
    end = SERVER.ask(file_of(case))
    if end not in ("loaded", "refused"):
        raise Broken(end)
    return f"{case[0]} {end}"


def smaller(case: Case) -> Any:
    kind, data = case
    parts = data if kind == "file" else _whole_operations(data)
    for fewer in without_parts(parts):
        yield kind, fewer if kind == "file" else b"".join(fewer)


def _whole_operations(program: bytes) -> list[bytes]:
    try:
        return _operations(program)
    except Exception:
        return [program[i : i + 1] for i in range(len(program))]


def program(case: Case) -> str:
    data = file_of(case)
    shown = repr(data) if len(data) < 5000 else f"zlib.decompress({zlib.compress(data, 9)!r})"
    return f"import io, zlib, frontend\nfrontend.load(io.BytesIO({shown}))"


FUZZER = Fuzzer("checkpoints", draw, check, program, smaller)

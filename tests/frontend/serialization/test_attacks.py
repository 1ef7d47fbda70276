"""Hostile checkpoints: refused in little time and memory, and nothing of them stays.

Each is a program for the pickle machine, or a zip file, as an attacker would write it.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
import time
import zipfile
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.serialization import CheckpointError
from tests.fuzz import checkpoints

FOUR = struct.pack("<4f", 1, 2, 3, 4)
LARGE = 1 << 40


def zipped(program: bytes, storage: bytes = FOUR, method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as file:
        file.writestr("a/data.pkl", program)
        file.writestr("a/data/0", storage)
    return buffer.getvalue()


def named(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def number(value: int) -> bytes:
    return f"I{value}\n".encode()


def row(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def storage(elements: bytes = number(4), kind: str = "FloatStorage") -> bytes:
    return row(text("storage"), named("torch", kind), text("0"), text("cpu"), elements) + b"Q"


REBUILD = named("torch._utils", "_rebuild_tensor_v2")
EMPTY = named("collections", "OrderedDict") + b")R"


def tensor(offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    sizes, steps = row(*map(number, shape)), row(*map(number, strides))
    return REBUILD + row(storage(), number(offset), sizes, steps, b"\x89", EMPTY) + b"R"


def state(**slots: bytes) -> bytes:
    items = b"".join(text(name) + value for name, value in slots.items())
    return row(b"N", b"}(" + items + b"u") + b"b"


def doubled(levels: int, start: bytes = b"]") -> bytes:
    """Tuples each of which holds the one before twice."""
    body = start + b"q\x00"
    for level in range(levels):
        body += b"h%ch%c\x86q%c" % (level, level, level + 1)
    return body


ARRAY = (
    named("numpy._core.multiarray", "_reconstruct")
    + row(named("numpy", "ndarray"), row(number(0)), b"C\x01b") + b"R"
)  # fmt: skip
FLOATS = named("numpy", "dtype") + row(text("f4"), b"\x89", b"\x88") + b"R"


def filled(shape: bytes, data: bytes = b"C\x04\0\0\0\0", dtype: bytes = FLOATS) -> bytes:
    return ARRAY + row(number(1), shape, dtype, b"\x89", data) + b"b"


def again(function: bytes, *arguments: bytes, kept: bool = True) -> bytes:
    """A call of the same arguments 60,000 times, 300 KB of a pickle."""
    start = function + b"q\x00" + row(*arguments) + b"q\x01" + b"]"
    return start + (b"(" + b"h\0h\1R" * 60_000 + b"e" if kept else b"h\0h\1R0" * 60_000)


def elements(code: str, count: int, data: bytes = b"") -> bytes:
    dtype = named("numpy", "dtype") + row(text(code)) + b"R"
    return row(b"B" + struct.pack("<I", len(data)) + data, dtype, row(number(count)), text("C"))


def in_set(keys: list[bytes]) -> bytes:
    return b"\x8f(" + b"".join(keys) + b"\x90"


def chosen(k: int) -> bytes:
    """A number whose hash is 0."""
    return b"\x8a\x10" + (k * ((1 << 61) - 1)).to_bytes(16, "little")


MANY = b"](" + b"K\x01" * 50_000 + b"e"
LONG = b"B" + struct.pack("<I", 400_000) + b"x" * 400_000
FROM_BUFFER = named("numpy._core.numeric", "_frombuffer")
OVERLONG = {  # what takes time or memory out of proportion
    "lists of one list, kept": again(named("builtins", "list"), MANY),
    "sizes of one list": again(named("torch", "Size"), MANY, kept=False),
    "bytearrays of the same bytes": again(named("builtins", "bytearray"), LONG),
    "arrays of the same bytes": again(
        FROM_BUFFER, elements("u1", 400_000, b"x" * 400_000)[1:-1]),
    "an array of two thousand million elements without bytes": FROM_BUFFER
    + elements("S0", 2_000_000_000) + b"R",
    "an array of elements without bytes, by its state": ARRAY + row(
        number(1), row(number(2_000_000_000)), named("numpy", "dtype") + row(text("S0")) + b"R",
        b"\x89", b"C\0") + b"b",
    "complex numbers of one hash": in_set([
        named("numpy._core.multiarray", "scalar") + row(
            named("numpy", "dtype") + row(text("c16")) + b"R",
            b"C\x10" + struct.pack("<dd", -1000003.0 * k, k)) + b"R" for k in range(1, 5000)]),
    "tuples of one hash": in_set([chosen(k) + b"\x85" for k in range(5000)]),
    "keys that may all lie in one place": in_set([b"G" + struct.pack(">d", k + 0.5)
                                                  for k in range(100_000)]),
    "one long key for 60,000 dicts": MANY.replace(b"](", b"(").replace(b"e", b"t") + b"q\0"
    + b"}h\0Ns0" * 60_000,
    "a place in the memo that is far": b"Nr\xff\xff\xff\x7f",
    "a conjugated tensor of the size of its shape": tensor(0, (1 << 20, 1 << 20), (0, 0)).replace(
        EMPTY, EMPTY + b"}" + text("conj") + b"\x88s").replace(b"FloatS", b"ComplexFloatS"),
}  # fmt: skip


PROGRAMS = {
    "strides set after the check": tensor(0, (4,), (1,))
    + state(strides=row(number(-1)), shape=row(number(64))),
    "a tensor made without its constructor": REBUILD + b")\x81"
    + state(storage=storage(), strides=row(number(-7))),
    "state for an entry of the table": named("torch", "FloatStorage") + state(dtype=text("i32")),
    "state for a function of the table": REBUILD + state(__init__=EMPTY),
    "state for the defaults of a function": named("torch", "Size")
    + state(__defaults__=row(number(3))),
    "attributes of an OrderedDict": EMPTY + b"}" + text("items") + number(5) + b"sb",
    "_metadata that is no dict": EMPTY + b"}" + text("_metadata") + number(5) + b"sb",
    "a negative stride": tensor(3, (4,), (-1,)),
    "a negative offset": tensor(-1, (1,), (1,)),
    "an end beyond the storage": tensor(1, (4,), (1,)),
    "a product that overflows": tensor(0, (1 << 32, 1 << 33), (0, 0)),
    "a sum that overflows": tensor(0, (1 << 62, 2), (1 << 62, 1 << 62)),
    "a shape of bools": REBUILD + row(storage(), b"\x88", row(number(4)), row(number(1)), b"\x89")
    + b"R",
    "an attribute that is a method": named("torch._utils", "_rebuild_parameter_with_state")
    + row(tensor(0, (4,), (1,)), b"\x88", EMPTY, b"}" + text("backward") + number(1) + b"s") + b"R",
    "an attribute of Python's": named("torch._utils", "_rebuild_parameter_with_state")
    + row(tensor(0, (4,), (1,)), b"\x88", EMPTY, b"}" + text("__class__") + number(1) + b"s")
    + b"R",
    "an attribute of the frontend's": named("torch._utils", "_rebuild_parameter_with_state")
    + row(tensor(0, (4,), (1,)), b"\x88", EMPTY, b"}" + text("_value") + number(1) + b"s") + b"R",
    "tuples that explode": doubled(60),
    "a key that explodes": b"}" + doubled(60, b")") + b"Ns",
    "a name that explodes": doubled(60) + text("x") + b"\x93",
    "a storage that explodes": doubled(60) + b"Q",
    "a set of lists": b"\x8f(]\x90",
    "lists 100,000 deep": b"]" * 100_000 + b"a" * 99_999,
    "a list of itself": b"]q\x00h\x00a",
    "bytes of 2^40": b"\x8e" + struct.pack("<Q", LARGE) + b"N",
    "a bytearray of 2^40": b"\x96" + struct.pack("<Q", LARGE) + b"N",
    "a text of 2^40": b"\x8d" + struct.pack("<Q", LARGE) + b"N",
    "an integer of a million bytes": b"\x8b" + struct.pack("<i", 1 << 20) + b"\x7f" * (1 << 20),
    "integers of one hash": b"}("
    + b"".join(b"\x8a\x10" + (k * ((1 << 61) - 1)).to_bytes(16, "little") + b"N"
               for k in range(20_000)) + b"u",
    "items for a tensor": tensor(0, (4,), (1,)) + number(1) + b"a",
    "a mark as a value": b"(q\x00",
    "a mark in a tuple": b"(\x85",
    "nothing": b"",
    "an extension": b"\x82\x01",
    "an array with fewer bytes than its shape": filled(row(number(LARGE))),
    "an array of a negative shape": filled(row(number(-1), number(-1))),
    "an array of objects": filled(row(number(1)), dtype=named("numpy", "dtype")
                                  + row(text("O8"), b"\x89", b"\x88") + b"R"),
    "an array filled twice": filled(row(number(1)))
    + row(number(1), row(number(1)), FLOATS, b"\x89", b"C\x04\0\0\0\0") + b"b",
    "a dtype with fields": FLOATS + row(number(3), text("<"), row(text("x")), b"N", b"N") + b"b",
    "a big-endian dtype": FLOATS + row(number(3), text(">"), b"N", b"N", b"N") + b"b",
    "a class as the result": named("torch", "Tensor"),
    "a storage as the result": storage(),
    "a defaultdict that calls a function": named("collections", "defaultdict") + row(REBUILD)
    + b"R",
    "a device with a hash of choice": named("torch", "device") + row(text("cuda"), number(1 << 61))
    + b"R",
}  # fmt: skip


def refused(data: bytes) -> float:
    """The seconds it takes to refuse a file."""
    start = time.perf_counter()
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        torch.load(io.BytesIO(data))
    return time.perf_counter() - start


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_refused(name: str) -> None:
    assert refused(zipped(b"\x80\x04" + PROGRAMS[name] + b".")) < 10
    good = zipped(b"\x80\x02" + tensor(0, (4,), (1,)) + b".")
    assert torch.load(io.BytesIO(good)).tolist() == [1, 2, 3, 4]  # nothing of it stays


@pytest.mark.slow
def test_refusing_takes_little_time_and_memory() -> None:
    """In a process that measures: ten seconds, and 64 MB besides what the file holds."""
    server = checkpoints.Server()
    try:
        for name, program in {**PROGRAMS, **OVERLONG}.items():
            assert server.ask(zipped(b"\x80\x04" + program + b".")) == "refused", name
    finally:
        server.close()


def test_a_file_that_is_trusted_takes_what_it_takes() -> None:
    lists = named("builtins", "list") + b"q\x00" + row(MANY) + b"q\x01]("
    data = zipped(b"\x80\x04" + lists + b"h\0h\1R" * 200 + b"e.")
    with pytest.raises(CheckpointError, match=r"takes more .* weights_only=False"):
        torch.load(io.BytesIO(data))
    assert len(torch.load(io.BytesIO(data), weights_only=False)) == 200


def test_plain_data_is_within_the_budget() -> None:
    """What Python needs for small objects is many times what a pickle writes of them."""
    data: list[Any] = [
        {f"word{k}": k for k in range(30_000)}, [{"a": k, "b": k + 1} for k in range(8_000)],
        {(k, k + 0.5): None for k in range(5_000)}, [np.str_(""), np.bytes_(b"")],
    ]  # fmt: skip
    buffer = io.BytesIO()
    torch.save([*data, [torch.ones(1)] * 3_000, [torch.ones(1) for _ in range(300)]], buffer)
    buffer.seek(0)
    assert torch.load(buffer)[:4] == data


def test_an_expanded_tensor_takes_the_memory_of_its_storage() -> None:
    huge = torch.load(
        io.BytesIO(zipped(b"\x80\x02" + tensor(0, (1 << 20, 1 << 20), (0, 0)) + b"."))
    )
    assert huge.shape == (1 << 20, 1 << 20) and huge[5, 7] == 1
    with pytest.raises(RuntimeError, match="more than one element"):
        huge.fill_(0)
    buffer = io.BytesIO()
    torch.save(huge, buffer)
    assert len(buffer.getvalue()) < 4096
    buffer.seek(0)
    assert torch.load(buffer).stride() == (0, 0)


def test_overlapping_windows_are_read_only() -> None:
    windows = torch.load(io.BytesIO(zipped(b"\x80\x02" + tensor(0, (3, 2), (1, 1)) + b".")))
    assert windows.tolist() == [[1, 2], [2, 3], [3, 4]]
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        windows.fill_(0)


def test_bools_of_other_bytes_are_made_plain() -> None:
    program = tensor(0, (4,), (1,)).replace(b"FloatStorage", b"BoolStorage")
    flags = torch.load(io.BytesIO(zipped(b"\x80\x02" + program + b".", bytes([2, 255, 1, 0]))))
    assert int(flags.sum()) == 3 and flags.to(torch.int64).tolist() == [1, 1, 1, 0]


# -- zip files -----------------------------------------------------------------------------------


def test_compressed_members_are_refused() -> None:
    data = zipped(b"\x80\x02N.", bytes(50 << 20), zipfile.ZIP_DEFLATED)
    assert len(data) < 1 << 20
    refused(data)


def directory(data: bytes) -> int:
    """Where the list of members begins."""
    return data.index(b"PK\x01\x02")


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def test_members_inside_each_other_are_refused() -> None:
    """A thousand members that are one megabyte of the file would be a gigabyte."""
    data = zipped(b"\x80\x02N.")
    second = data.index(b"PK\x01\x02", directory(data) + 4)
    inside = changed(data, second + 42, struct.pack("<I", 0))
    with pytest.raises(CheckpointError, match="inside another"):
        torch.load(io.BytesIO(inside))


def test_two_members_of_one_name_are_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("a/data.pkl", b"\x80\x02N.")
        file.writestr("a/data.pkl", b"\x80\x02K\x01.")
    refused(buffer.getvalue())


@pytest.mark.parametrize(
    ("offset", "value"),
    [(20, b"\xf0\xff\xff\xff\xf0\xff\xff\xff"), (20, b"\xff" * 8), (42, b"\xff" * 4),
     (42, b"\0\0\0\x7f"), (28, b"\xff\xff"), (30, b"\xff\xff"), (8, b"\x01"), (10, b"\x08"),
     (16, b"\0\0\0\0")],
)  # fmt: skip
def test_damaged_entries_are_refused(offset: int, value: bytes) -> None:
    data = zipped(b"\x80\x02N.")
    refused(changed(data, directory(data) + offset, value))


def test_an_end_that_lies_is_refused() -> None:
    data = zipped(b"\x80\x02N.")
    end = data.index(b"PK\x05\x06")
    for at, value in ((8, b"\xff\xff\xff\xff"), (12, b"\xff" * 4), (16, b"\xff" * 4)):
        refused(changed(data, end + at, value))


# -- the older format ------------------------------------------------------------------------------


def legacy(program: bytes, keys: list[Any], storages: bytes) -> bytes:
    facts = {"protocol_version": 1001, "little_endian": True}
    plain = (0x1950A86A20F9469CFC6C, 1001, facts)
    head = b"".join(pickle.dumps(item, 2) for item in plain)
    return head + b"\x80\x02" + program + b"." + pickle.dumps(keys, 2) + storages


def test_the_older_format_is_read_and_its_lies_refused() -> None:
    program = tensor(0, (4,), (1,))
    good = legacy(program, ["0"], struct.pack("<q", 4) + FOUR)
    assert torch.load(io.BytesIO(good)).tolist() == [1, 2, 3, 4]
    for data in (
        legacy(program, ["0"], struct.pack("<q", 1 << 40) + FOUR),
        legacy(program, ["0"], struct.pack("<q", -1) + FOUR),
        legacy(program, ["0"], struct.pack("<q", 3) + FOUR[:12]),
        legacy(program, ["1"], struct.pack("<q", 4) + FOUR),
        legacy(program, ["0", "0"], (struct.pack("<q", 4) + FOUR) * 2),
        legacy(program, [0], struct.pack("<q", 4) + FOUR),
        legacy(named("os", "system") + row(text("true")) + b"R", [], b""),
        good.replace(b"little_endian", b"mittle_endian"),
    ):
        refused(data)
    for length in range(40, len(good)):
        refused(good[:length])


def test_mmap_reads_what_is_touched_and_changes_no_file(tmp_path: Any) -> None:
    path = tmp_path / "x.pt"
    torch.save({"x": torch.arange(1000.0), "y": torch.ones(3, dtype=torch.int8)}, path)
    before = path.read_bytes()
    loaded = torch.load(path, mmap=True)
    loaded["x"].zero_()
    assert path.read_bytes() == before and loaded["y"].tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="takes the path"):
        torch.load(io.BytesIO(before), mmap=True)


def test_importing_the_frontend_does_not_load_this() -> None:
    import subprocess

    code = "import sys, frontend; print('frontend.serialization' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"

"""Pickles that make much of little: a call, a state, keys or containers, over and over.

in : a random generator, how much the program may repeat
out: the program, which `checkpoints` loads within the budget of its file, or sees refused
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

REPEATS = 5_000  # for each unit of a case's size
PAYLOAD = 20_000  # items, the same
_PRIME = (1 << 61) - 1

Random = np.random.Generator


def named(name: str) -> bytes:
    module, _, function = name.rpartition(".")
    return f"c{module}\n{function}\n".encode()


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def data(value: bytes) -> bytes:
    return b"B" + struct.pack("<I", len(value)) + value


def number(value: int) -> bytes:
    length = (value.bit_length() + 8) // 8
    return b"\x8a" + bytes([length]) + value.to_bytes(length, "little", signed=True)


def row(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def _kept(item: bytes, place: int) -> bytes:
    """Make an item, and leave it in the memo alone."""
    return item + b"q" + bytes([place]) + b"0"


FUNCTION, ARGUMENTS, PART = (b"h\x00", b"h\x01", b"h\x02")
_DTYPE = named("numpy.dtype")
_SCALAR = named("numpy.core.multiarray.scalar")
_STORAGE = row(text("storage"), named("torch.FloatStorage"), text("0"), text("cpu"), number(50))


def _list(random: Random, size: int) -> bytes:
    return b"](" + b"K\x01" * size + b"e"


def _tuple(random: Random, size: int) -> bytes:
    return row(b"K\x01" * size)


def _pairs(random: Random, size: int) -> bytes:
    return b"](" + b"K\x01K\x02\x86" * size + b"e"


def _dict(random: Random, size: int) -> bytes:
    return (
        b"}(" + b"".join(number(int(k)) + b"N" for k in random.integers(1 << 40, size=size)) + b"u"
    )


def _doubled(random: Random, size: int) -> bytes:
    """A tuple that holds another one twice, and so on."""
    levels = b"".join(b"h\x05h\x05\x86q\x05" for _ in range(int(random.integers(1, 60))))
    return b")q\x05" + levels + b"0" * levels.count(b"\x86") + b"h\x05"


PAYLOADS: tuple[Callable[[Random, int], bytes], ...] = (
    _list, _tuple, _pairs, _dict, _doubled,
    lambda random, size: data(b"x" * size), lambda random, size: text("x" * size),
    lambda random, size: text("é" * (size // 2)),
    lambda random, size: b"\x8f(" + b"".join(number(k) for k in range(size // 4)) + b"\x90",
    lambda random, size: number(1 << int(random.integers(1, 1000))),
)  # fmt: skip
CALLS = (
    "builtins.list", "builtins.tuple", "builtins.set", "builtins.frozenset", "builtins.bytes",
    "builtins.bytearray", "builtins.dict", "builtins.int", "builtins.range", "builtins.slice",
    "collections.OrderedDict", "collections.Counter", "collections.defaultdict", "torch.Size",
    "torch.device", "numpy.dtype", "_codecs.encode",
)  # fmt: skip


def _arrays(random: Random, size: int) -> tuple[bytes, bytes]:
    """A NumPy array or number, and what it is made of."""
    code = str(random.choice(["u1", "f4", "S0", "U0", "b1", "S9", "c16"]))
    count = int(random.choice([0, 1, size, 1 << 31]))
    dtype = _DTYPE + row(text(code)) + b"R"
    content = data(b"x" * int(random.choice([0, size, 4 * size])))
    if random.random() < 0.3:
        return _SCALAR, row(dtype, content)
    return named("numpy.core.numeric._frombuffer"), row(
        content, dtype, row(number(count)), text("C")
    )


def _tensors(random: Random, size: int) -> tuple[bytes, bytes]:
    """A tensor over one storage, maybe with a state."""
    kind = str(random.choice(["FloatStorage", "BoolStorage", "ComplexFloatStorage"]))
    storage = _STORAGE.replace(b"FloatStorage", kind.encode()) + b"Q"
    shape, strides = ((4,), (1,)) if random.random() < 0.5 else ((size, size), (0, 0))
    metadata = b"}" + text("conj") + b"\x88s" if kind.startswith("Complex") else b"N"
    tensor = row(storage, number(0), row(*map(number, shape)), row(*map(number, strides)), b"\x89",
                 b"}", metadata)  # fmt: skip
    if random.random() < 0.5:
        return named("torch._utils._rebuild_tensor_v2"), tensor
    state = b"}(" + b"".join(text(f"name{k}") + b"N" for k in range(size // 20)) + b"u"
    return named("torch._tensor._rebuild_from_type_v2"), row(
        named("torch._utils._rebuild_tensor_v2"), named("torch.Tensor"), tensor, state
    )


def _calls(random: Random, size: int) -> bytes:
    """One function of one payload, again and again, each result kept or not."""
    match int(random.integers(4)):
        case 0:
            function, arguments = _arrays(random, int(random.integers(1, PAYLOAD * size)))
        case 1:
            function, arguments = _tensors(random, int(random.integers(1, PAYLOAD * size)))
        case _:
            payload = PAYLOADS[int(random.integers(len(PAYLOADS)))]
            item = payload(random, int(random.integers(1, PAYLOAD * size)))
            function = named(CALLS[int(random.integers(len(CALLS)))])
            arguments = item + b"\x85"
    count = int(random.integers(1, REPEATS * size))
    start = _kept(function, 0) + _kept(arguments, 1)
    one = FUNCTION + ARGUMENTS + b"R"
    return start + ((one + b"0") * count + b"N" if random.random() < 0.5 else
                    b"](" + one * count + b"e")  # fmt: skip


def _states(random: Random, size: int) -> bytes:
    """States for one object, or for many."""
    array = (
        named("numpy.core.multiarray._reconstruct")
        + row(named("numpy.ndarray"), row(number(0)), data(b"b")) + b"R"
    )  # fmt: skip
    content = int(random.integers(PAYLOAD * size))
    dtype = _DTYPE + row(text("u1")) + b"R"
    states = {
        array: row(number(1), row(number(content)), dtype, b"\x89", data(b"x" * content)),
        named("collections.OrderedDict") + b")R": b"}" + text("_metadata") + b"}(" + b"".join(
            text(str(k)) + b"N" for k in range(content // 20)) + b"us",
        _DTYPE + row(text("f4")) + b"R": row(
            number(3), text("<"), b"NNN", *[b"N"] * (content // 4)),
    }  # fmt: skip
    target = list(states)[int(random.integers(len(states)))]
    count = int(random.integers(1, REPEATS * size))
    one = ARGUMENTS + b"b"
    many = (target + one) * (count // 50 + 1) if random.random() < 0.5 else target + one * count
    return _kept(states[target], 1) + many


def _keys(random: Random, size: int) -> bytes:
    """A dict or a set of keys that are long, or of hashes that lie in one place."""
    count = int(random.integers(1, REPEATS * size))
    shift = int(random.integers(62))
    kinds: tuple[Callable[[int], bytes], ...] = (
        lambda k: number(k * _PRIME), lambda k: number(k << shift), lambda k: number(k % 7),
        lambda k: b"G" + struct.pack(">d", k * 2.0**shift),
        lambda k: b"h\x03" + number(k) + b"\x86",
        lambda k: _SCALAR + row(b"h\x02", data(struct.pack("<dd", -1000003.0 * k, k))) + b"R",
        lambda k: row(number(k << 31), number(k)), lambda k: row(number(k % 5), number(k)),
        lambda k: number(-1 - k % 2) + number(k) + b"\x86",
    )  # fmt: skip
    kind = kinds[int(random.integers(len(kinds)))]
    long = row(*[number(int(k)) for k in random.integers(1 << 31, size=50 * size)])
    start = _kept(_DTYPE + row(text("c16")) + b"R", 2) + _kept(long, 3)
    keys = [kind(k) for k in range(1, count)]
    if random.random() < 0.5:
        return start + b"\x8f(" + b"".join(keys) + b"\x90"
    return start + b"}(" + b"N".join(keys) + (b"N" if keys else b"") + b"u"


def _containers(random: Random, size: int) -> bytes:
    """Containers, marks and items of a byte or two each."""
    count = REPEATS * size * int(random.integers(1, 8))
    kinds = (
        b"]", b"}", b"\x8f", b")\x85", b"(t", b"(d", b"](h\x01e", b"]\x94", b"}\x94", b"2", b"(",
        b"}K\x01Ns", b"]h\x01a", b"N\x85", b"K\x01\x85\x94", b"(NN\x91", b"h\x01h\x01\x86",
    )  # fmt: skip
    chosen = [kinds[int(k)] for k in random.integers(len(kinds), size=int(random.integers(1, 4)))]
    body = b"".join(chosen) * (count // len(b"".join(chosen)))
    return _kept(b"]" + b"K\x01" + b"a", 1) + b"N](" + body + (b"e" if b"(" not in chosen else b"")


_WAYS = (_calls, _calls, _states, _keys, _containers)


def drawn(random: Random, size: int) -> bytes:
    """A pickle."""
    way = _WAYS[int(random.integers(len(_WAYS)))]
    return b"\x80\x04" + way(random, size) + b"."

"""The parts of an object that are written as text: expressions, guards, functions in a subset of
Python, names. What LLVM makes of them is what Python gives."""

from __future__ import annotations

import ctypes
import json
import keyword
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from graphc.build import brought_along
from graphc.build.brought_along import FIXED_TEXTS, FUNCTIONS
from graphc.build.function_lines import FunctionLines
from graphc.build.identifiers import TAKEN, Identifiers, identifier
from graphc.build.number_text import INTRINSICS, POWER, NumberText, double_text
from graphc.build.translation import translated
from graphc.codegen.llvm.native import compile_text
from graphc.codegen.program.size_expressions import (
    GreatestSize,
    NamedSize,
    SizeSum,
    WholeUnits,
    llvm_value,
    python_text,
)
from graphc.codegen.target import host
from graphc.errors import LoweringError
from graphc.ir.dims import dim
from graphc.ir.size_floats import float_argument, operated, value_at
from graphc.ir.size_guards import SizeGuard
from tests.build.loaded import functions_of

I64 = ctypes.c_int64


def native(text: str, name: str, kinds: list[Any], result: Any = I64) -> Callable[..., Any]:
    """A function of a module."""
    head = f'target triple = "{host().triple}"\n'
    code = compile_text(head + text, host())
    function: Callable[..., Any] = ctypes.CFUNCTYPE(result, *kinds)(
        functions_of(code, [name])[name]
    )
    return function


# -- sizes -----------------------------------------------------------------------------------------


def test_expressions_of_sizes_are_the_same_in_both_forms() -> None:
    n, k = dim("n", -(10**6)), dim("k", 1)
    expressions: list[Any] = [
        7, n, 3 * n * k - n + 5, (n - 7) // 3, (n * n - 40 * k) // (k + 2), -(-n // 2), -(-k // 2),
        GreatestSize((0, n, k * 4)), WholeUnits(GreatestSize((0, n)), 64),
        SizeSum((n, k, 12)), SizeSum((NamedSize("__before"), n % 5)),
    ]  # fmt: skip
    for expression in expressions:
        f = FunctionLines()
        values = {"n": "%n", "k": "%k", "__before": "11"}
        f.do(f"ret i64 {llvm_value(expression, values, f.emit)}")
        computed = native(f.text("define i64 @f(i64 %n, i64 %k)"), "f", [I64, I64])
        for sizes in ((0, 1), (1, 1), (5, 3), (-8, 2), (-1, 7), (12345, 11)):
            named = dict(zip(("n", "k"), sizes, strict=True)) | {"__before": 11}
            assert computed(*sizes) == eval(python_text(expression), named), str(expression)


# -- numbers and guards ----------------------------------------------------------------------------

X, Y, N = float_argument("x"), float_argument("y"), dim("n", 1)
NUMBERS: list[Any] = [
    X + 1, 1.0 - X**N, X * (Y * -1.0), 1 / N, X / Y, X**Y, abs(X - Y),
    operated("float", 3 * N - 1),
]  # fmt: skip
DRAWN = [(0.9, 2.0, 3), (0.0, -1.0, 7), (1e300, 1e10, 1000), (-2.0, 0.5, 2), (0.1, 0.0, 1),
         (float("inf"), 1.0, 4), (float("nan"), 2.0, 5), (-0.0, 0.0, 1)]  # fmt: skip


def evaluated(text: str, kind: Any) -> Callable[..., Any]:
    head = INTRINSICS + POWER
    return native(head + text, "f", [ctypes.c_double, ctypes.c_double, I64], kind)


def values() -> Mapping[str, str]:
    return {"x": "%x", "y": "%y", "n": "%n"}


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.text)
def test_numbers_are_those_of_python(number: Any) -> None:
    f = FunctionLines()
    writer = NumberText(f, values())
    value, is_float = writer.number(number)
    assert is_float
    wrong = f.emit("xor i1 true, true")
    for each in writer.wrong:
        wrong = f.emit(f"or i1 {wrong}, {each}")
    f.do(f"%result = select i1 {wrong}, double {double_text(12345.0)}, double {value}")
    f.do("ret double %result")
    computed = evaluated(f.text("define double @f(double %x, double %y, i64 %n)"), ctypes.c_double)
    for x, y, n in DRAWN:
        try:
            expected = value_at(number, {"x": x, "y": y, "n": n})
        except ArithmeticError:
            expected = 12345.0
        if isinstance(expected, complex):
            expected = 12345.0
        actual = computed(x, y, n)
        assert actual.hex() == float(expected).hex(), (x, y, n)


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "==", "!=", "is"])
@pytest.mark.parametrize("negated", ["", "not "])
def test_guards_hold_where_they_hold_in_python(sign: str, negated: str) -> None:
    pairs: list[tuple[Any, Any]] = [
        (X, Y), (X, 0.0), (1 / (N - 1), 0.5), (N // 2, 2),
        (4, 4 * N), (X**N, 1.0),
    ]  # fmt: skip
    if sign != "is":  # which compares as floats do
        far = 2**63
        pairs += [(N, far), (N + (far - 2), far - 1), (9 * N - 1, far - 1), (N - far, -far),
                  (-2 * far, N), (far, far)]  # fmt: skip
    for left, right in pairs:
        guard = SizeGuard(left, negated + sign, right)
        f = FunctionLines()
        holds = NumberText(f, values()).holds(guard)
        f.do(f"ret i64 {f.emit(f'zext i1 {holds} to i64')}")
        computed = evaluated(f.text("define i64 @f(double %x, double %y, i64 %n)"), I64)
        for x, y, n in [*DRAWN, (float("nan"), float("nan"), 2)]:
            assert computed(x, y, n) == guard.holds({"x": x, "y": y, "n": n}), (str(guard), x, y, n)


def test_what_python_alone_computes_is_refused() -> None:
    with pytest.raises(LoweringError, match=r"Python alone computes numpy\.cos"):
        NumberText(FunctionLines(), values()).number(operated("numpy.cos", X))


# -- functions in a subset of Python ---------------------------------------------------------------


def collatz(start: int, most: int) -> int:
    """Steps until 1."""
    steps = 0
    while start != 1 and (steps < most or most < 0):
        if start % 2 == 0:
            start = start // 2
        else:
            start = 3 * start + 1
        steps = steps + 1
    if not (start == 1 and steps < 1000):
        return -1
    return steps


def test_a_function_is_the_same_translated() -> None:
    text = translated([collatz]).replace("define internal", "define")
    computed = native(text, "graphc.collatz", [I64, I64])
    for start in (1, 2, 7, 27, 97):
        for most in (5, 1000, -1):
            assert computed(start, most) == collatz(start, most)


def test_what_the_subset_does_not_have_is_refused() -> None:
    def listed(x: int) -> int:
        return sum([x])

    with pytest.raises(LoweringError, match=r"listed: sum\(\[x\]\) cannot be|listed: \[x\]"):
        translated([listed])


# -- files of tensors ------------------------------------------------------------------------------

KEY = b"fc.weight"
WANTED = {"dtype": "F32", "shape": [2, 3], "data_offsets": [8, 32]}


@pytest.fixture(scope="module")
def read() -> Callable[[bytes], list[int]]:
    """Reads a file with one wanted tensor, in Python and natively: the status of both, which are
    the same, and the state's bytes."""
    texts = FIXED_TEXTS + KEY + b"F32"
    record = [len(FIXED_TEXTS), len(KEY), len(FIXED_TEXTS) + len(KEY), 3, 0, 2, 4, 24]
    name = "graphc.read_state"
    text = translated(FUNCTIONS).replace(f"internal i64 @{name}", f"i64 @{name}")
    function = native(text, name, [I64] * 7)

    def both(file: bytes) -> list[int]:
        outcomes = []
        for reader in (brought_along.read_state, function):
            state = np.zeros(32, np.uint8)
            content = np.frombuffer(file + b"\0", np.uint8)[: len(file)]
            numbers = [np.frombuffer(texts, np.uint8), np.array(record), np.array([2, 3])]
            status = reader(
                state.ctypes.data, content.ctypes.data, len(file), numbers[1].ctypes.data, 1,
                numbers[0].ctypes.data, numbers[2].ctypes.data,
            )  # fmt: skip
            outcomes.append([status, *state.tolist()])
        assert outcomes[0] == outcomes[1]
        return outcomes[0]

    return both


def file_of(header: Any, data: bytes = bytes(range(40)), text: bytes | None = None) -> bytes:
    raw = json.dumps(header).encode() if text is None else text
    return len(raw).to_bytes(8, "little") + raw + data


def test_a_tensor_is_read_wherever_it_stands(read: Any) -> None:
    other = {"dtype": "I64", "shape": [], "data_offsets": [0, 8]}
    inside = {"fc.weight": "no", "a": '"}]{', "b\\": ["]", {"x": 1}]}
    headers: list[Any] = [
        {"fc.weight": WANTED},
        {"fc": other, "fc.weight": WANTED, "fc.weight2": other},
        {"__metadata__": inside, "fc.weight": WANTED},
        {"fc.weight": dict(reversed(WANTED.items()))},
    ]
    for header in headers:
        assert read(file_of(header)) == [0, *[0] * 4, *range(8, 32), *[0] * 4]
    spaced = json.dumps({"fc.weight": WANTED}, indent=3).replace(":", "\t: \n").encode() + b"   "
    assert read(file_of(None, text=spaced))[0] == 0


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"dtype": "F64"}, -3), ({"dtype": "F3"}, -3), ({"shape": [3, 2]}, -3),
        ({"shape": [2, 3, 1]}, -3), ({"shape": [2]}, -3), ({"data_offsets": [8, 31]}, -3),
        ({"data_offsets": [32, 56]}, -3), ({"data_offsets": [8]}, -1), ({"shape": "2,3"}, -3),
        ({"data_offsets": [-8, 16]}, -1), ({"data_offsets": [10**17, 10**17 + 24]}, -3),
    ],
)  # fmt: skip
def test_a_tensor_of_another_form_is_refused(read: Any, change: Any, status: int) -> None:
    assert read(file_of({"fc.weight": {**WANTED, **change}})) == [status, *[0] * 32]


def test_a_file_without_the_tensor_is_refused(read: Any) -> None:
    assert read(file_of({"other": WANTED}))[0] == -2
    assert read(file_of({}))[0] == -2
    for file in (b"", b"1234567", file_of({"fc.weight": WANTED})[:60], file_of([]), file_of(3)):
        assert read(file)[0] == -1
    assert read((1 << 63).to_bytes(8, "little") + b"{}")[0] == -1


def test_damaged_headers_are_read_alike_and_within_bounds(read: Any) -> None:
    """Bytes that differ give a status, or the bytes that the header then says."""
    generator = np.random.default_rng(0)
    good = file_of({"__metadata__": {"a": "b"}, "fc.weight": WANTED})
    statuses = set()
    for _ in range(400):
        damaged = np.frombuffer(good, np.uint8).copy()
        for place in generator.integers(8, len(good) - 40, generator.integers(1, 4)):
            damaged[place] = generator.choice(np.frombuffer(b'{}[]",:\\ 09ax', np.uint8))
        statuses.add(read(damaged.tobytes())[0])
    assert statuses == {0, -1, -2, -3}


def test_messages_are_filled_in() -> None:
    buffer = ctypes.create_string_buffer(64)
    work = np.array([-(2**63), 42])
    message = b"\x01, \x02, \x03."
    text = ctypes.create_string_buffer(message)
    length = brought_along.put_message(
        ctypes.addressof(buffer), 64, ctypes.addressof(text), len(message), -907,
        work.ctypes.data, 0, 0,
    )  # fmt: skip
    assert buffer.value == b"-907, -9223372036854775808, 42." and length == len(buffer.value)


# -- identifiers -----------------------------------------------------------------------------------


def test_identifiers_are_taken_by_both_languages_and_are_unique() -> None:
    names = Identifiers()
    labels = [
        "m.0.weight",
        "m.0_weight",
        "0",
        "",
        "_x",
        "a__b",
        "class",
        "int",
        "größe",
        "x y",
        "I",
    ]
    made = [names.of(label) for label in labels]
    assert len(set(made)) == len(labels)
    for name in made:
        assert name.isidentifier() and name.isascii() and name not in TAKEN
        assert not name.startswith("_") and "__" not in name and not keyword.iskeyword(name)
    assert identifier("m.0.weight") == "m_0_weight"

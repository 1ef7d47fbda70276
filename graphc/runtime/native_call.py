"""The way from Python into native code: one foreign call that takes a list of arrays.

In: the address of a Python list of NumPy arrays and of a `CallFrame`. The function made here reads
each array object as NumPy lays it out in memory, checks it against what the plan expects (dtype,
shape, contiguous, aligned, writable where it is updated, no overlap with an updated one; and how
many there are), puts its data pointer into the driver's table and runs the driver. Per array this
costs a few nanoseconds, where asking the array from Python costs hundreds.

Out: what the driver returned (0, or 1 + the step whose content check failed), `UNFIT`, `OVERLAP` or
`NO_WORKERS`. Then nothing was run, and Python finds out what was wrong, or makes the workers.

The layout of lists and arrays is part of CPython's and NumPy's binary interfaces; `_check_layout`
compares it with a live array before it is first relied on.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.codegen.cache.object_cache import user_cache
from graphc.codegen.llvm.loading import LoadedFunction, compile_driver
from graphc.codegen.llvm.native import CALL_LEVEL
from graphc.codegen.target import running
from graphc.errors import LoweringError
from graphc.ir.types import TensorType
from graphc.runtime.pool import Cell

UNFIT, OVERLAP, NO_WORKERS = -1, -2, -3

# Of NumPy's array flags.
CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400

# Offsets in bytes. Every object begins with CPython's header; the last word of it is the type.
HEADER = object.__basicsize__
TYPE = HEADER - 8
LIST_ITEMS = HEADER + 8
DATA, RANK, DIMENSIONS, STRIDES = (HEADER + offset for offset in (0, 8, 16, 24))
DESCRIPTOR, FLAGS = HEADER + 40, HEADER + 48


class ArgumentSlot(ctypes.Structure):
    """What one array has to be. A `descriptor` of 0 asks for no check (an array made for the call);
    `updated` says that the driver writes it, `entry` is its place in the driver's table. `strides`
    of 0 are any that the flags allow."""

    _fields_ = (
        ("descriptor", ctypes.c_void_p), ("rank", ctypes.c_int64), ("dimensions", ctypes.c_void_p),
        ("flags", ctypes.c_int64), ("nbytes", ctypes.c_int64), ("updated", ctypes.c_int64),
        ("entry", ctypes.c_int64), ("strides", ctypes.c_void_p),
    )  # fmt: skip


class CallFrame(ctypes.Structure):
    """What a call needs besides the arrays. `arguments` slots come first among `count`. `cell` (see
    `pool`) is read where `threads` is more than 1."""

    _fields_ = (
        ("count", ctypes.c_int64), ("arguments", ctypes.c_int64), ("slots", ctypes.c_void_p),
        ("table", ctypes.c_void_p), ("arena", ctypes.c_void_p), ("driver", ctypes.c_void_p),
        ("array_type", ctypes.c_void_p), ("has_updates", ctypes.c_int64),
        ("threads", ctypes.c_int64), ("cell", ctypes.c_void_p), ("finished", ctypes.c_int64),
    )  # fmt: skip


class SlotTable(NamedTuple):
    """What arguments have to be: their slots, and for each its type and what the slot points to."""

    slots: Any
    types: Sequence[TensorType]
    alive: list[Any]


def slot_table(
    arguments: Sequence[TensorType], updated: set[int], fresh: Sequence[int],
    like: SlotTable | None = None,
) -> SlotTable:  # fmt: skip
    """Slots for arguments, then arrays for the outputs at the positions `fresh` of the driver's
    table. `like`: that of the same program at other sizes, in which most types are the same ones:
    of a model with hundreds of weights a slot each would take a millisecond."""
    slots = (ArgumentSlot * max(len(arguments) + len(fresh), 1))()
    known: Sequence[TensorType | None] = [None] * len(arguments)
    alive: list[Any] = [None] * len(arguments)
    if like is not None:
        ctypes.memmove(slots, like.slots, ctypes.sizeof(slots))
        known, alive = like.types, [*like.alive]
    for number, (type, before) in enumerate(zip(arguments, known, strict=True)):
        if type is before:
            continue
        dimensions = (ctypes.c_int64 * max(len(type.shape), 1))(*type.shape)
        descriptor = type.dtype.numpy
        alive[number] = dimensions, descriptor
        flags = CONTIGUOUS | ALIGNED | (WRITEABLE if number in updated else 0)
        slots[number] = ArgumentSlot(
            id(descriptor), len(type.shape), ctypes.addressof(dimensions), flags, type.nbytes,
            number in updated, number,
        )  # fmt: skip
    for number, entry in enumerate(fresh, len(arguments)):
        slots[number] = ArgumentSlot(None, 0, None, 0, 0, 0, entry)
    return SlotTable(slots, arguments, alive)


@functools.cache
def enter() -> Any:
    """The function `enter(list address, call address) -> status`; a call releases the GIL."""
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    return function(_enter_function().address)


@functools.cache
def _enter_function() -> LoadedFunction:
    _check_layout()
    return compile_driver(
        _text(running().triple), {}, "enter", store=user_cache(), level=CALL_LEVEL
    )


def entering(call: CallFrame) -> Any:
    """The function `list -> status` for a call block, which has to outlive it. It is a built-in
    function of CPython like those of C extensions: calling one costs a quarter of what a call
    through ctypes does. It releases the GIL."""
    new_capsule, _ = _capsules()
    return built_in(_method(), new_capsule(ctypes.addressof(call), None, None))


def built_in(method: _Method, held: Any) -> Any:
    """A built-in function with its `self`, which lives as long as it."""
    return _new_function()(ctypes.addressof(method), held, None)


def address_of(capsule: Any) -> int:
    """The pointer in a capsule without a name."""
    return int(_capsules()[1](capsule, None))


@functools.cache
def _capsules() -> tuple[Any, Any]:
    """CPython's functions that make a capsule, and that open one."""
    python, pointer, any_object = ctypes.pythonapi, ctypes.c_void_p, ctypes.py_object
    new = ctypes.PYFUNCTYPE(any_object, pointer, ctypes.c_char_p, pointer)
    opened = ctypes.PYFUNCTYPE(pointer, any_object, ctypes.c_char_p)
    return new(("PyCapsule_New", python)), opened(("PyCapsule_GetPointer", python))


@functools.cache
def _new_function() -> Any:
    """CPython's function that makes a built-in function."""
    pointer, any_object = ctypes.c_void_p, ctypes.py_object
    function = ctypes.PYFUNCTYPE(any_object, pointer, any_object, pointer)
    return function(("PyCFunction_NewEx", ctypes.pythonapi))


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )  # fmt: skip


_METHODS: list[tuple[_Method, LoadedFunction]] = []
"""Every one that was made, since functions point to it: threads that come at once make one each."""

ONE_OBJECT = 0x8  # the function takes one argument: METH_O


@functools.cache
def _method() -> _Method:
    """The definition shared by all `entering` functions."""
    callees = python_functions(
        ("PyCapsule_GetPointer", "PyEval_SaveThread", "PyEval_RestoreThread", "PyLong_FromLongLong")
    )
    callees["enter"] = _enter_function()
    text = _METHOD.format(triple=running().triple)
    return method_of(
        compile_driver(text, callees, "enter_method", store=user_cache(), level=CALL_LEVEL),
        ONE_OBJECT,
    )


def method_of(function: LoadedFunction, flags: int) -> _Method:
    """The definition of built-in functions that run `function`; it stays."""
    method = _Method(b"enter", function.address, flags, None)
    _METHODS.append((method, function))
    return method


def python_functions(names: Sequence[str]) -> dict[str, LoadedFunction]:
    """Functions of CPython's by name, for generated code to call."""
    return {name: LoadedFunction(_address(getattr(ctypes.pythonapi, name))) for name in names}


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


_METHOD = """target triple = "{triple}"

declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare i64 @enter(ptr, ptr)

define ptr @enter_method(ptr %self, ptr %list) nounwind {{
  %call = call ptr @PyCapsule_GetPointer(ptr %self, ptr null)
  %state = call ptr @PyEval_SaveThread()
  %status = call i64 @enter(ptr %list, ptr %call)
  call void @PyEval_RestoreThread(ptr %state)
  %result = call ptr @PyLong_FromLongLong(i64 %status)
  ret ptr %result
}}
"""


def _check_layout() -> None:
    array = np.zeros((2, 3), np.float32)
    holder = [array]

    def word(address: int, kind: Any = ctypes.c_int64) -> int:
        return int(kind.from_address(address).value)

    item = word(word(id(holder) + LIST_ITEMS))
    same = (
        item == id(array)
        and word(id(holder) + HEADER) == 1
        and word(item + TYPE) == id(np.ndarray)
        and word(item + DATA) == array.ctypes.data
        and word(item + RANK, ctypes.c_int32) == 2
        and word(word(item + DIMENSIONS) + 8) == 3
        and word(word(item + STRIDES)) == 12
        and word(item + DESCRIPTOR) == id(array.dtype)
        and word(item + FLAGS, ctypes.c_int32) & 0xFFF == array.flags.num & 0xFFF
    )
    if not same:
        raise LoweringError(
            f"NumPy {np.__version__} lays out arrays in memory otherwise than native calls expect"
        )


def loaded(value: str, base: str, at: int | str, type: str = "ptr", of: str = "i8") -> str:
    """LLVM IR: `value` is what lies in memory so many elements (`of`) behind `base`."""
    return f"""  %{value}.p = getelementptr {of}, ptr %{base}, i64 {at}
  %{value} = load {type}, ptr %{value}.p"""


def counting(
    label: str, index: str, count: str, body: str, done: str, first: str, last: str
) -> str:
    """LLVM IR: the head of a loop over [0, count), come to from the block `first`, and from `last`,
    which computes the next `index`."""
    return f"""{label}:
  %{index} = phi i64 [ 0, %{first} ], [ %{index}.next, %{last} ]
  %{index}.more = icmp slt i64 %{index}, %{count}
  br i1 %{index}.more, label %{body}, label %{done}"""


def again(label: str, index: str) -> str:
    """LLVM IR: on to the next `index`."""
    return f"""  %{index}.next = add i64 %{index}, 1
  br label %{label}"""


def shared_text() -> str:
    """The LLVM IR of what all ways into native code share: `fits`, whether an object is the array
    that a slot describes, and `run`, the driver over a table that is filled."""
    return _fits() + _run()


def _fits() -> str:
    slot = offsets(ArgumentSlot)
    return f"""
define internal i1 @equal(ptr %some, ptr %others, i64 %count) nounwind {{
entry:
  br label %loop

{counting("loop", "i", "count", "one", "all", "entry", "one")}

one:
  %some.p = getelementptr i64, ptr %some, i64 %i
  %left = load i64, ptr %some.p
  %others.p = getelementptr i64, ptr %others, i64 %i
  %right = load i64, ptr %others.p
  %i.next = add i64 %i, 1
  %same = icmp eq i64 %left, %right
  br i1 %same, label %loop, label %differ

all:
  ret i1 true

differ:
  ret i1 false
}}

define internal i1 @fits(ptr %item, ptr %slot, ptr %type) nounwind {{
{loaded("kind", "item", TYPE)}
  %is.array = icmp eq ptr %kind, %type
  br i1 %is.array, label %check.type, label %unfit

check.type:
  %descriptor = load ptr, ptr %slot
{loaded("own", "item", DESCRIPTOR)}
  %same = icmp eq ptr %own, %descriptor
  %rank.p = getelementptr i8, ptr %item, i64 {RANK}
  %rank.32 = load i32, ptr %rank.p
  %rank = sext i32 %rank.32 to i64
{loaded("wanted", "slot", slot["rank"], "i64")}
  %same.rank = icmp eq i64 %rank, %wanted
  %flags.p = getelementptr i8, ptr %item, i64 {FLAGS}
  %flags.32 = load i32, ptr %flags.p
  %flags = zext i32 %flags.32 to i64
{loaded("mask", "slot", slot["flags"], "i64")}
  %masked = and i64 %flags, %mask
  %same.flags = icmp eq i64 %masked, %mask
  %ok.1 = and i1 %same, %same.rank
  %ok = and i1 %ok.1, %same.flags
  br i1 %ok, label %check.shape, label %unfit

check.shape:
{loaded("shape", "item", DIMENSIONS)}
{loaded("dims", "slot", slot["dimensions"])}
  %same.shape = call i1 @equal(ptr %shape, ptr %dims, i64 %rank)
  br i1 %same.shape, label %check.strides, label %unfit

check.strides:
{loaded("steps", "slot", slot["strides"])}
  %any = icmp eq ptr %steps, null
  br i1 %any, label %fit, label %strided

strided:
{loaded("own.steps", "item", STRIDES)}
  %same.steps = call i1 @equal(ptr %own.steps, ptr %steps, i64 %rank)
  ret i1 %same.steps

fit:
  ret i1 true

unfit:
  ret i1 false
}}
"""


def _run() -> str:
    field, cell = offsets(CallFrame), offsets(Cell)
    return f"""
define internal i64 @run(ptr %call) nounwind {{
{loaded("table", "call", field["table"])}
{loaded("arena", "call", field["arena"])}
{loaded("driver", "call", field["driver"])}
{loaded("threads", "call", field["threads"], "i64")}
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %ask, label %alone

alone:
  %alone.status = call i64 %driver(ptr %table, ptr %arena, i64 0, i64 1, ptr null)
  br label %ran

ask:
{loaded("cell", "call", field["cell"])}
  %size = load atomic i64, ptr %cell acquire, align 8
  %enough = icmp sge i64 %size, %threads
  br i1 %enough, label %share, label %no.workers

share:
  %share.p = getelementptr i8, ptr %cell, i64 {cell["share"]}
  %share.f = load ptr, ptr %share.p
{loaded("pool", "cell", cell["pool"])}
  %shared.status = call i64 %share.f(ptr %pool, ptr %driver, ptr %table, ptr %arena, i64 %threads)
  br label %ran

ran:
  %status = phi i64 [ %alone.status, %alone ], [ %shared.status, %share ]
  %through = icmp eq i64 %status, 0
{loaded("finished", "call", field["finished"], "i64")}
  %one.more = zext i1 %through to i64
  %finished.now = add i64 %finished, %one.more
  store i64 %finished.now, ptr %finished.p
  ret i64 %status

no.workers:
  ret i64 {NO_WORKERS}
}}
"""


def offsets(structure: type[ctypes.Structure]) -> dict[str, int]:
    """Where each field of a structure lies."""
    return {name: structure.__dict__[name].offset for name, *_ in structure._fields_}


def _text(triple: str) -> str:
    """The LLVM IR of `enter`: two loops over the slots, then the driver."""
    field, slot = offsets(CallFrame), offsets(ArgumentSlot)
    return f'''target triple = "{triple}"
{shared_text()}
define i64 @enter(ptr %list, ptr %call) nounwind {{
entry:
  %count = load i64, ptr %call
{loaded("arguments", "call", field["arguments"], "i64")}
{loaded("slots", "call", field["slots"])}
{loaded("table", "call", field["table"])}
{loaded("items", "list", LIST_ITEMS)}
{loaded("length", "list", HEADER, "i64")}
  %right.length = icmp eq i64 %length, %count
  br i1 %right.length, label %bind, label %unfit

{counting("bind", "i", "count", "one", "overlaps", "entry", "bound")}

one:
  %slot.at = mul i64 %i, {ctypes.sizeof(ArgumentSlot)}
  %slot = getelementptr i8, ptr %slots, i64 %slot.at
{loaded("item", "items", "%i", "ptr", "ptr")}
  %descriptor = load ptr, ptr %slot
  %unchecked = icmp eq ptr %descriptor, null
  br i1 %unchecked, label %bound, label %check

check:
{loaded("type", "call", field["array_type"])}
  %ok = call i1 @fits(ptr %item, ptr %slot, ptr %type)
  br i1 %ok, label %bound, label %unfit

bound:
{loaded("data", "item", DATA)}
  %entry.p = getelementptr i8, ptr %slot, i64 {slot["entry"]}
  %place = load i64, ptr %entry.p
  %place.p = getelementptr ptr, ptr %table, i64 %place
  store ptr %data, ptr %place.p
{again("bind", "i")}

overlaps:
{loaded("updates", "call", field["has_updates"], "i64")}
  %any = icmp ne i64 %updates, 0
  br i1 %any, label %outer, label %run

{counting("outer", "u", "arguments", "outer.slot", "run", "overlaps", "outer.next")}

outer.slot:
  %u.at = mul i64 %u, {ctypes.sizeof(ArgumentSlot)}
  %u.slot = getelementptr i8, ptr %slots, i64 %u.at
{loaded("u.updated", "u.slot", slot["updated"], "i64")}
  %is.updated = icmp ne i64 %u.updated, 0
{loaded("u.bytes", "u.slot", slot["nbytes"], "i64")}
  %u.p = getelementptr i64, ptr %table, i64 %u
  %u.begin = load i64, ptr %u.p
  %u.end = add i64 %u.begin, %u.bytes
  br i1 %is.updated, label %inner, label %outer.next

{counting("inner", "v", "arguments", "inner.slot", "outer.next", "outer.slot", "inner.next")}

inner.slot:
  %v.at = mul i64 %v, {ctypes.sizeof(ArgumentSlot)}
  %v.bytes.at = add i64 %v.at, {slot["nbytes"]}
  %v.bytes.p = getelementptr i8, ptr %slots, i64 %v.bytes.at
  %v.bytes = load i64, ptr %v.bytes.p
  %v.p = getelementptr i64, ptr %table, i64 %v
  %v.begin = load i64, ptr %v.p
  %v.end = add i64 %v.begin, %v.bytes
  %other = icmp ne i64 %u, %v
  %before = icmp ult i64 %u.begin, %v.end
  %after = icmp ult i64 %v.begin, %u.end
  %meet = and i1 %before, %after
  %shared = and i1 %meet, %other
  br i1 %shared, label %overlap, label %inner.next

inner.next:
{again("inner", "v")}

outer.next:
{again("outer", "u")}

run:
  %status = call i64 @run(ptr %call)
  ret i64 %status

unfit:
  ret i64 {UNFIT}

overlap:
  ret i64 {OVERLAP}
}}
'''

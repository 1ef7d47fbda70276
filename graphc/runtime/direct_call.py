"""From Python's call of a function with arrays to its results without Python in between: what eager
mode calls for each small op.

In: a function that takes arrays and returns the array, or the tuple of arrays, that it makes of
them; executables that do the same for arrays of some strides. Out: a built-in function that
compares its arguments with what the executables expect, makes arrays for the results, runs the
driver and returns them. Whatever fits none of them, or fails, it hands to the function in Python:
errors, copies and threads are its business.

A frame is used by one call at a time: what comes while another thread runs native code with it goes
to Python too, which has a frame for each. The function that Python calls holds all that it reads.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.codegen.cache.object_cache import user_cache
from graphc.codegen.llvm.loading import LoadedFunction, compile_driver
from graphc.codegen.llvm.native import CALL_LEVEL
from graphc.codegen.target import running
from graphc.errors import LoweringError
from graphc.ir.types import TensorType
from graphc.runtime.executable import Executable
from graphc.runtime.native_call import (
    ALIGNED,
    CONTIGUOUS,
    DATA,
    HEADER,
    ArgumentSlot,
    CallFrame,
    address_of,
    again,
    built_in,
    counting,
    loaded,
    method_of,
    offsets,
    python_functions,
    shared_text,
)

FRAMES = 4
"""Combinations of strides that native code looks through; others go by Python."""
TUPLE_ITEMS = HEADER + 8
EMPTY = 184
"""`PyArray_Empty` in NumPy's table of C functions."""
SEVERAL_OBJECTS = 0x80  # the function takes a C array of arguments: METH_FASTCALL

Strides = tuple[int, ...] | None
"""Of an argument, in bytes; None where it is contiguous."""


class ResultSlot(ctypes.Structure):
    """What array is made for a result."""

    _fields_ = (
        ("rank", ctypes.c_int64), ("dimensions", ctypes.c_void_p), ("descriptor", ctypes.c_void_p),
    )  # fmt: skip


class DirectFrame(ctypes.Structure):
    """An executable as native code calls it. `made` is room for the results of a call under way,
    `busy` says that there is one, `next` is the frame to try where the arguments do not fit."""

    _fields_ = (
        ("call", ctypes.c_void_p), ("arguments", ctypes.c_int64), ("slots", ctypes.c_void_p),
        ("results", ctypes.c_int64), ("result_slots", ctypes.c_void_p), ("made", ctypes.c_void_p),
        ("busy", ctypes.c_int64), ("next", ctypes.c_void_p),
    )  # fmt: skip


class DirectCall:
    """`function` takes arrays as `fallback` does."""

    def __init__(self, fallback: Callable[..., Any]):
        self._first = np.zeros(1, np.int64)
        self._frames: list[tuple[Any, ...]] = []
        held = (fallback, self._first, self._frames)
        self.function = built_in(_method(), held)

    def add(
        self, executable: Executable, types: Sequence[TensorType], strides: Sequence[Strides]
    ) -> None:
        """Call `executable` for arrays of these types and strides, which are handed on as they are.
        Nothing is done where its calls need more than that, or there are frames enough."""
        memory = executable.memory_of_direct_calls() if len(self._frames) < FRAMES else None
        if memory is None:
            return
        alive: list[Any] = [memory]
        slots = (ArgumentSlot * max(len(types), 1))()
        for number, (type, steps) in enumerate(zip(types, strides)):
            dimensions, descriptor = _words(type.shape), type.dtype.numpy
            lengths = _words(steps or ())
            flags = ALIGNED if steps is not None else CONTIGUOUS | ALIGNED
            slots[number] = ArgumentSlot(
                id(descriptor), len(type.shape), ctypes.addressof(dimensions), flags, type.nbytes,
                0, number, 0 if steps is None else ctypes.addressof(lengths),
            )  # fmt: skip
            alive += [dimensions, descriptor, lengths]
        results = executable.result_types
        result_slots = (ResultSlot * len(results))()
        for number, type in enumerate(results):
            dimensions, descriptor = _words(type.shape), type.dtype.numpy
            result_slots[number] = ResultSlot(
                len(type.shape), ctypes.addressof(dimensions), id(descriptor)
            )
            alive += [dimensions, descriptor]
        made_arrays = (ctypes.c_void_p * len(results))()
        frame = DirectFrame(
            memory.call_address, len(types), ctypes.addressof(slots), len(results),
            ctypes.addressof(result_slots), ctypes.addressof(made_arrays), 0, 0,
        )  # fmt: skip
        last = self._frames[-1][0] if self._frames else None
        self._frames.append((frame, slots, result_slots, made_arrays, alive))
        if last is None:
            self._first[0] = ctypes.addressof(frame)
        else:
            last.next = ctypes.addressof(frame)


def _words(numbers: Sequence[int]) -> Any:
    return (ctypes.c_int64 * max(len(numbers), 1))(*numbers)


@functools.cache
def _method() -> Any:
    """The definition shared by all these functions."""
    names = (
        "PyEval_SaveThread", "PyEval_RestoreThread", "PyObject_Vectorcall", "PyTuple_New",
        "PyTuple_SetItem", "Py_IncRef", "Py_DecRef",
    )  # fmt: skip
    callees = python_functions(names)
    callees["make_array"] = LoadedFunction(_make_array())
    function = compile_driver(
        _text(running().triple), callees, "direct_call", store=user_cache(), level=CALL_LEVEL
    )
    return method_of(function, SEVERAL_OBJECTS)


def _make_array() -> int:
    """The address of NumPy's function (rank, dimensions, descriptor, is_fortran) -> array, which
    takes over a reference to the descriptor."""
    functions = importlib.import_module("numpy._core._multiarray_umath")
    table = address_of(functions._ARRAY_API)
    address = int(ctypes.c_void_p.from_address(table + 8 * EMPTY).value or 0)
    kind = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_int, ctypes.c_void_p, ctypes.py_object, ctypes.c_int
    )
    descriptor = np.dtype(np.float32)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(descriptor))
    array = kind(address)(2, ctypes.addressof(_words((2, 3))), descriptor, 0)
    if not (type(array) is np.ndarray and array.shape == (2, 3) and array.dtype is descriptor):
        raise LoweringError(f"NumPy {np.__version__} makes arrays otherwise than expected")
    return address


def _text(triple: str) -> str:
    """The LLVM IR of `direct_call`: for each frame, a loop over the arguments; then one over the
    results, and the driver. The GIL is held but for the driver."""
    frame, result = offsets(DirectFrame), offsets(ResultSlot)
    call = offsets(CallFrame)
    return f'''target triple = "{triple}"

declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @make_array(i32, ptr, ptr, i32)
{shared_text()}
define internal void @give_back(ptr %frame, i64 %count) nounwind {{
entry:
{loaded("made", "frame", frame["made"])}
  br label %loop

{counting("loop", "i", "count", "one", "done", "entry", "one")}

one:
{loaded("array", "made", "%i", "ptr", "ptr")}
  call void @Py_DecRef(ptr %array)
{again("loop", "i")}

done:
  %busy.p = getelementptr i8, ptr %frame, i64 {frame["busy"]}
  store i64 0, ptr %busy.p
  ret void
}}

define ptr @direct_call(ptr %self, ptr %given, i64 %count) nounwind {{
entry:
{loaded("fallback", "self", TUPLE_ITEMS)}
{loaded("held", "self", TUPLE_ITEMS + 8)}
  %first.pp = getelementptr i8, ptr %held, i64 {DATA}
  %first.p = load ptr, ptr %first.pp
  %first = load ptr, ptr %first.p
  br label %frames

frames:
  %frame = phi ptr [ %first, %entry ], [ %following, %unfit ]
  %none = icmp eq ptr %frame, null
  br i1 %none, label %python, label %look

look:
  %call = load ptr, ptr %frame
{loaded("table", "call", call["table"])}
{loaded("type", "call", call["array_type"])}
{loaded("slots", "frame", frame["slots"])}
{loaded("arguments", "frame", frame["arguments"], "i64")}
{loaded("busy", "frame", frame["busy"], "i64")}
  %free = icmp eq i64 %busy, 0
  %right.count = icmp eq i64 %arguments, %count
  %try = and i1 %free, %right.count
  br i1 %try, label %bind, label %python

{counting("bind", "i", "count", "one", "results", "look", "bound")}

one:
  %slot.at = mul i64 %i, {ctypes.sizeof(ArgumentSlot)}
  %slot = getelementptr i8, ptr %slots, i64 %slot.at
{loaded("item", "given", "%i", "ptr", "ptr")}
  %ok = call i1 @fits(ptr %item, ptr %slot, ptr %type)
  br i1 %ok, label %bound, label %unfit

bound:
{loaded("data", "item", DATA)}
  %place.p = getelementptr ptr, ptr %table, i64 %i
  store ptr %data, ptr %place.p
{again("bind", "i")}

unfit:
  %next.p = getelementptr i8, ptr %frame, i64 {frame["next"]}
  %following = load ptr, ptr %next.p
  br label %frames

results:
  store i64 1, ptr %busy.p
{loaded("number", "frame", frame["results"], "i64")}
{loaded("result.slots", "frame", frame["result_slots"])}
{loaded("made", "frame", frame["made"])}
  br label %make

{counting("make", "j", "number", "array", "run", "results", "keep")}

array:
  %result.at = mul i64 %j, {ctypes.sizeof(ResultSlot)}
  %result.slot = getelementptr i8, ptr %result.slots, i64 %result.at
  %rank = load i64, ptr %result.slot
  %rank.32 = trunc i64 %rank to i32
{loaded("dims", "result.slot", result["dimensions"])}
{loaded("descriptor", "result.slot", result["descriptor"])}
  call void @Py_IncRef(ptr %descriptor)
  %new = call ptr @make_array(i32 %rank.32, ptr %dims, ptr %descriptor, i32 0)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %no.memory, label %keep

keep:
  %made.j = getelementptr ptr, ptr %made, i64 %j
  store ptr %new, ptr %made.j
{loaded("new.data", "new", DATA)}
  %entry.j = add i64 %count, %j
  %entry.p = getelementptr ptr, ptr %table, i64 %entry.j
  store ptr %new.data, ptr %entry.p
{again("make", "j")}

run:
  %state = call ptr @PyEval_SaveThread()
  %status = call i64 @run(ptr %call)
  call void @PyEval_RestoreThread(ptr %state)
  %through = icmp eq i64 %status, 0
  br i1 %through, label %ran, label %failing

ran:
  %single = icmp eq i64 %number, 1
  br i1 %single, label %only, label %several

only:
  %only.array = load ptr, ptr %made
  store i64 0, ptr %busy.p
  ret ptr %only.array

several:
  %tuple = call ptr @PyTuple_New(i64 %number)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %no.memory, label %fill

{counting("fill", "k", "number", "put", "filled", "several", "put")}

put:
{loaded("made.k", "made", "%k", "ptr", "ptr")}
  %set = call i32 @PyTuple_SetItem(ptr %tuple, i64 %k, ptr %made.k)
{again("fill", "k")}

filled:
  store i64 0, ptr %busy.p
  ret ptr %tuple

failing:
  call void @give_back(ptr %frame, i64 %number)
  br label %python

no.memory:
  %many = phi i64 [ %j, %array ], [ %number, %several ]
  call void @give_back(ptr %frame, i64 %many)
  ret ptr null

python:
  %answer = call ptr @PyObject_Vectorcall(ptr %fallback, ptr %given, i64 %count, ptr null)
  ret ptr %answer
}}
'''

"""The Python side of a shared library: the state as NumPy arrays, and the function on arrays.

This module is a template: `python_module` writes its text with the tables of a library in place of
those between the two lines of dashes. What it writes needs NumPy and the library beside it.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

# -- tables ----------------------------------------------------------------------------------------
NAME = "built"
LIBRARIES: tuple[tuple[str, tuple[str, ...], int, int, tuple[str, ...]], ...] = ()
"""Files, and what the processor has to have for each, as /proc/cpuinfo calls it: the first that it
has all of is taken. The layout of the state it takes, the bytes of that, and the fields that it
reads packed."""
INITIAL = "built.safetensors"
FIELDS: dict[str, tuple[str, str, tuple[int, ...], int]] = {}
"""By attribute: the key in files, dtype, shape, first byte."""
SIZES: tuple[tuple[str, tuple[int, int] | None], ...] = ()
"""Sizes, and which argument and axis tells each; None for a number that is a keyword."""
FLOATS: tuple[str, ...] = ()
ARGUMENTS: tuple[tuple[str, str, Callable[..., tuple[int, ...]] | None, bool], ...] = ()
"""Name, dtype, shape by sizes, and whether it is written."""
RESULTS: tuple[tuple[str, Callable[..., tuple[int, ...]]], ...] = ()
# -- end of tables ---------------------------------------------------------------------------------

HERE = pathlib.Path(__file__).resolve().parent


class ModelState:
    """All that lasts from call to call, each field an array over the state's memory: written where
    it is assigned to, `state.lr[...] = 1e-4` or `state.lr = 1e-4`. Weights that calls read packed
    take the latter alone, and are packed by the next call. `file`: the path or the bytes of a
    safetensors file; without it the values are those it was built with. Raises ValueError for a
    file that does not fit."""

    memory: Any
    _is_outdated: bool

    def __init__(self, file: str | os.PathLike[str] | bytes | None = None):
        content = file
        if not isinstance(content, bytes):
            content = pathlib.Path(HERE / INITIAL if file is None else file).read_bytes()  # type: ignore[arg-type]
        _, _, layout, count, packed = _library()
        block = np.zeros(count + 64, np.uint8)
        first = -block.ctypes.data % 64
        set_member = super().__setattr__
        set_member("memory", block[first : first + count])
        set_member("_is_outdated", False)
        status = _function("_init")(
            ctypes.c_void_p(self.memory.ctypes.data), content, ctypes.c_int64(len(content)),
            ctypes.c_int64(layout),
        )  # fmt: skip
        if status:
            raise ValueError(_text(status, None))
        for name in FIELDS:
            array = self._field(name)
            array.flags.writeable = name not in packed
            set_member(name, array)

    def __setattr__(self, name: str, value: Any) -> None:
        """Write a field. Raises AttributeError where there is none of this name, and what NumPy
        raises for values that do not fit."""
        if name not in FIELDS:
            raise AttributeError(f"the state of {NAME} has no field {name}")
        self._field(name)[...] = value
        if name in _library()[4]:
            super().__setattr__("_is_outdated", True)

    def _field(self, name: str) -> Any:
        _, dtype, shape, offset = FIELDS[name]
        count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        return self.memory[offset : offset + count].view(dtype).reshape(shape)

    def prepare(self) -> None:
        """Pack the weights that were written; a call does it by itself."""
        if self._is_outdated:
            status = _function("_prepare")(ctypes.c_void_p(self.memory.ctypes.data))
            if status:
                raise ValueError(_text(status, None))
            super().__setattr__("_is_outdated", False)

    def to_bytes(self) -> bytes:
        """The state as the bytes of a safetensors file."""
        state, save = ctypes.c_void_p(self.memory.ctypes.data), _function("_save")
        file = ctypes.create_string_buffer(save(state, None, ctypes.c_int64(0)))
        save(state, file, ctypes.c_int64(len(file)))
        return file.raw

    def copy(self) -> ModelState:
        """Another state with these values."""
        other = ModelState(self.to_bytes())
        other.memory[...] = self.memory
        super(ModelState, other).__setattr__("_is_outdated", self._is_outdated)
        return other


def run(state: ModelState, *arrays: Any, **numbers: Any) -> Any:
    """One call: the result, or a tuple of several. Arguments are arrays in order; those it writes
    must be contiguous. Raises TypeError for other arrays, ValueError for values and sizes that the
    function refuses; then nothing was written."""
    if len(arrays) != len(ARGUMENTS):
        raise TypeError(f"{NAME} takes {len(ARGUMENTS)} arrays, not {len(arrays)}")
    values = [_array(array, *row) for array, row in zip(arrays, ARGUMENTS)]
    sizes = [_size(name, place, values, numbers) for name, place in SIZES]
    named = [float(numbers.pop(name)) for name in FLOATS]
    if numbers:
        raise TypeError(f"{NAME} takes no {', '.join(numbers)}")
    for value, (label, _, shape, _) in zip(values, ARGUMENTS):
        if shape is not None and value.shape != shape(*sizes):
            raise TypeError(f"{label} is of shape {value.shape}, not {shape(*sizes)}")
    extents = [*map(ctypes.c_int64, sizes), *map(ctypes.c_double, named)]
    count = max(_function("_work_bytes")(*extents), 16)
    work = np.empty(count, np.uint8)
    results = [np.empty(_at_least_0(shape(*sizes)), dtype) for dtype, shape in RESULTS]
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (*values, *results, work)]
    state.prepare()
    status = _function("")(ctypes.c_void_p(state.memory.ctypes.data), *extents, *pointers)
    if status:
        raise ValueError(_text(status, work))
    return results[0] if len(results) == 1 else tuple(results)


def _at_least_0(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(extent, 0) for extent in shape)


def _array(array: Any, label: str, dtype: str, shape: Any, is_written: bool) -> Any:
    if is_written and not (isinstance(array, np.ndarray) and array.flags.carray):
        raise TypeError(f"{label} is written: it has to be a contiguous array")
    value = np.ascontiguousarray(array) if np.ndim(array) else np.asarray(array)
    if shape is not None and value.dtype != np.dtype(dtype):
        raise TypeError(f"{label} is of {value.dtype}, not of {np.dtype(dtype)}")
    return value


def _size(name: str, place: tuple[int, int] | None, values: Any, numbers: Any) -> int:
    if place is None:
        return int(numbers.pop(name))
    argument, axis = place
    if values[argument].ndim <= axis:
        raise TypeError(f"{ARGUMENTS[argument][0]} has no axis {axis}")
    return int(values[argument].shape[axis])


def _text(status: int, work: Any) -> str:
    buffer = ctypes.create_string_buffer(1000)
    place = None if work is None else ctypes.c_void_p(work.ctypes.data)
    _function("_error")(ctypes.c_int64(status), place, buffer, ctypes.c_int64(1000))
    return buffer.value.decode("utf-8", "replace")


_LOADED: dict[str, Any] = {}


def _function(part: str) -> Any:
    if not _LOADED:
        file, _, _, _, packed = _library()
        library = ctypes.CDLL(str(HERE / file))
        parts = ("", "_init", "_save", "_work_bytes", "_error")
        for each in (*parts, *(["_prepare"] if packed else [])):
            function = getattr(library, NAME + each)
            function.restype = ctypes.c_int64
            _LOADED[each] = function
    return _LOADED[part]


@functools.lru_cache(None)
def _library() -> tuple[str, tuple[str, ...], int, int, tuple[str, ...]]:
    """The row for this processor. Raises OSError where there is none."""
    if not any(needs for _, needs, *_ in LIBRARIES):
        return LIBRARIES[0]
    has = set(pathlib.Path("/proc/cpuinfo").read_text().split())
    for row in LIBRARIES:
        if has.issuperset(row[1]):
            return row
    raise OSError(f"{NAME} was not built for this processor")

"""Kernels that Python computes: functions that the driver calls like native ones, which call back.

A call of a program has released the GIL; a callback takes it, on whichever thread it comes, hands
the op arrays over the buffers themselves, and writes its results. Ops of the kind `host` raise for
no content, so what is raised here is an interrupt, or lack of memory: it is noted under the memory
of the call it belongs to, and raised when the native code has returned. An interrupted op
is computed again: the call ends with the results that it would have had.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.codegen.llvm.loading import LoadedFunction
from graphc.codegen.program.native_kernel import NativeKernel
from graphc.ir.instances import at_sizes
from graphc.ir.nodes import Graph
from graphc.ir.printer import print_graph
from graphc.ir.symbols import symbols_of
from graphc.ir.types import TensorType
from graphc.latest import Latest
from graphc.schedule.plan import KernelSpec
from graphc.system import IMPORTING, after_fork

Array = np.ndarray[Any, Any]

_SIGNATURE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)
_made: Latest[KernelSpec, NativeKernel] = Latest(256)
"""A memo. Loaded code that calls them keeps the callbacks alive."""
_noted: list[tuple[int, BaseException]] = []
_lock = threading.Lock()
after_fork(_lock._at_fork_reinit)  # type: ignore[attr-defined]


def host_kernel(spec: KernelSpec) -> NativeKernel:
    """The function of a kernel that Python computes."""
    known = _made.get(spec)
    if known is None:
        text = print_graph(spec.body, locations=False)
        symbol = "host_" + hashlib.sha256(text.encode()).hexdigest()[:32]
        sizes = tuple(symbol.name for symbol in symbols_of(spec.body))
        function = _SIGNATURE(_callback(spec.body, sizes))
        address = ctypes.cast(function, ctypes.c_void_p).value
        assert address is not None
        known = NativeKernel(symbol, LoadedFunction(address, (function,)), 1, 0, sizes)
        _made[spec] = known
    return known


def calling_back(enter: Callable[[Any], int], block: int, nbytes: int) -> Callable[[Any], int]:
    """The function that enters native code with this memory, raising what callbacks noted."""

    def entered(arrays: Any) -> int:
        status = enter(arrays)
        _raise_noted(block, nbytes)
        return status

    return entered


def _raise_noted(block: int, nbytes: int) -> None:
    """Raise what callbacks of the call with this memory noted, an interrupt before all else."""
    if not _noted:
        return
    with _lock:
        own = [item for item in _noted if block <= item[0] < block + nbytes]
        _noted[:] = [item for item in _noted if item not in own]
    errors = sorted((error for _, error in own), key=lambda error: isinstance(error, Exception))
    if errors:
        raise errors[0]


def _callback(body: Graph, names: tuple[str, ...]) -> Callable[..., None]:
    """The function that computes `body`, at the sizes of these names that a call gives."""

    @functools.lru_cache(maxsize=64)
    def at(sizes: tuple[int, ...]) -> Graph:
        return at_sizes(body, dict(zip(names, sizes))) if names else body

    def call(table: int, dims: int | None, begin: int, end: int, scratch: int) -> None:
        written: list[Array] = []
        while True:
            try:
                known = at(tuple((ctypes.c_int64 * len(names)).from_address(dims or table)))
                types = (*known.input_types, *known.output_types)
                pointers = (ctypes.c_void_p * max(len(types), 1)).from_address(table)
                arrays = [_over(pointers[i], type) for i, type in enumerate(types)]
                written = arrays[len(known.input_types) :]
                _compute(known, arrays, written)
                return
            except KeyboardInterrupt as error:
                _note(scratch, error)
            except BaseException as error:
                _note(scratch, error)
                for array in written:
                    array.fill(np.nan if array.dtype.kind == "f" else 0)
                return

    return call


def _note(scratch: int, error: BaseException) -> None:
    with _lock:
        _noted.append((scratch, error))


def _over(address: int | None, type: TensorType) -> Array:
    """An array over the memory of a buffer."""
    if not type.nbytes or address is None:
        return np.empty(type.shape, type.dtype.numpy)
    raw = (ctypes.c_uint8 * type.nbytes).from_address(address)
    return np.asarray(raw).view(type.dtype.numpy).reshape(type.shape)


def _compute(body: Graph, arrays: list[Array], written: list[Array]) -> None:
    with IMPORTING:
        from graphc.ops.interpreter import evaluate

    results = evaluate(body, tuple(arrays[: len(arrays) - len(written)]), reference=False)
    for place, result in zip(written, results, strict=True):
        place[...] = result

"""A call run once: its inputs from a file, its outputs described and stored."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from graphc.debug.files import write_file
from graphc.debug.traced import TracedCall
from graphc.errors import ArgumentError
from graphc.ir.nodes import Graph
from graphc.ir.types import TensorType
from graphc.records import replace

Array = np.ndarray[Any, Any]
SHOWN = 16
"""Elements up to which an output is printed."""


def outputs(call: TracedCall, reference: bool = False) -> tuple[Array, ...]:
    """The outputs of one run on copies of the call's arrays, by native code or by NumPy."""
    if reference:
        from graphc.ops.interpreter import run

        return run(call.graph, *call.fresh())
    return call.executable()(*call.fresh())


def with_arrays(call: TracedCall, path: str) -> TracedCall:
    """The call on the arrays of an .npz file: by the names of its inputs, or as `graphc.debug.dump`
    stores them, as the bytes of `input_0`, … Raises ArgumentError for a file that has others."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            by_name = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, zipfile.BadZipFile, AttributeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no .npz file of arrays"
        raise ArgumentError(f"{path} cannot be read: {reason}") from error
    pairs = list(zip(call.graph.input_names, call.graph.input_types, strict=True))
    arrays = [_stored(by_name, path, *names, type) for names, type in _named(pairs)]
    return replace(call, arrays=tuple(arrays))


def _named(pairs: list[tuple[str, TensorType]]) -> Iterator[tuple[tuple[str, str], TensorType]]:
    for position, (name, type) in enumerate(pairs):
        yield (name, f"input_{position}"), type


def _stored(arrays: dict[str, Array], path: str, name: str, other: str, type: TensorType) -> Array:
    array = arrays.get(name)
    if array is None and other in arrays:
        data = arrays[other].tobytes()
        if len(data) != type.nbytes:
            raise ArgumentError(f"{path}: {other} has {len(data)} bytes, {name} is {type}")
        return np.frombuffer(data, type.dtype.numpy).reshape(type.shape)
    if array is None:
        raise ArgumentError(f"{path} has no array {name!r}", hint=f"it has {', '.join(arrays)}")
    if array.dtype != type.dtype.numpy or array.shape != type.shape:
        actual = f"{array.dtype.name}{list(array.shape)}"
        raise ArgumentError(f"{path}: {name} is {actual}, the graph takes {type}")
    return array


def described(graph: Graph, results: Sequence[Array]) -> Iterator[str]:
    """Lines about each output: type, what input it updates, range, a digest of its bytes, and of
    small ones the elements."""
    updated = dict(graph.aliases)
    names = graph.input_names
    yield f"{graph.name}: {len(results)} outputs"
    for position, array in enumerate(results):
        target = f" -> %{names[updated[position]]}" if position in updated else ""
        type = TensorType.of(array)
        digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
        yield f"output {position}{target}: {type}{_range(array)}, sha256 {digest}"
        if array.size <= SHOWN:
            yield from np.array2string(array, prefix="  ").splitlines()


def _range(array: Array) -> str:
    if not array.size:
        return ", empty"
    least, greatest = array.min(), array.max()
    return f", from {least} to {greatest}" if array.size > 1 else ""


def save_outputs(results: Sequence[Array], path: str) -> None:
    """Write outputs as `output_0`, … of an .npz file. Raises ArgumentError where it cannot be."""
    stored = {f"output_{position}": np.asarray(array) for position, array in enumerate(results)}
    content = io.BytesIO()
    np.savez(content, **stored)  # type: ignore[arg-type]
    write_file(path, content.getvalue(), "the outputs")

"""`dump` of a compiled function: its executables as folders of files.

in : the specializations of a compiled function
out: a folder for each executable (`graphc.debug.dump_files`)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from frontend.engine.compiled.program import Inputs
from frontend.engine.compiled.staged import cut_of
from frontend.engine.outside.source import CapturedSource, HostSource
from graphc.errors import ArgumentError
from graphc.ir.types import TensorType
from graphc.system import IMPORTING


def dumped(function: Any, folder: Any) -> list[Path]:
    """The new folders. Raises ArgumentError where nothing was compiled yet, or for a folder that
    cannot be written."""
    with IMPORTING:
        from graphc.debug.dump_files import write_dump

    executables = [(each, e) for each in function.specializations for e in each.executables]
    wholes = [cut_of(each.executable) for each, _ in executables]
    if not executables:
        raise ArgumentError("nothing is compiled yet", hint="call the function once, then dump it")
    options = function.options
    return [
        write_dump(
            folder, executable, options.level, threads=options.most_threads,
            arrays=_arrays(instance.program.inputs, executable), whole=split, names=names,
        )
        for (instance, executable), (split, names) in zip(executables, wholes)
    ]  # fmt: skip


def _arrays(inputs: Inputs, executable: Any) -> list[Any]:
    """The inputs of an executable: what it captured as that is now, all else drawn."""
    with IMPORTING:
        from graphc.debug.dump_files import drawn

    arrays = drawn(executable.graph)
    sources = dict(zip(inputs.names, inputs.sources, strict=True))
    for position, name in enumerate(executable.graph.input_names):
        source = sources.get(name)  # none of what is packed ahead, and of what backward is given
        if isinstance(source, CapturedSource):
            value = source.captured._value
        elif isinstance(source, HostSource):
            value = source.array(())
        else:
            continue
        if TensorType.of(value) == executable.graph.input_types[position]:
            arrays[position] = value
    return arrays

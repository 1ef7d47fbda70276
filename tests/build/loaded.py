"""An object file loaded into this process, without a linker, and called through ctypes."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from llvmlite import binding

from graphc.build.building import EMBEDDED
from graphc.build.built_source import Array, ObjectSource
from graphc.build.object_file import object_code, programs_of
from graphc.build.state_layout import layout_for, state_file
from graphc.codegen.llvm.native import LOCK, machine_of
from graphc.codegen.target import host, named
from graphc.ir.instances import type_at

PARTS = ("init", "save", "work_bytes", "error")
_numbers = itertools.count()


def functions_of(code: bytes, names: Sequence[str]) -> dict[str, int]:
    """Addresses of functions of an object, which stays loaded."""
    with LOCK:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        jit = binding.create_lljit_compiler(machine_of(host()))
        builder = binding.JITLibraryBuilder().add_current_process().add_object_img(code)
        for name in names:
            builder.export_symbol(name)
        tracker = builder.link(jit, f"object{next(_numbers)}")
        _KEPT.append((jit, tracker))
        return {name: int(tracker[name]) for name in names}


_KEPT: list[Any] = []


class LoadedObject:
    """An object built of a source and loaded."""

    def __init__(
        self, source: ObjectSource, target: str = "host", embeds: bool = True, threads: int = 1
    ):
        self.source = source
        self.built = programs_of(source, named(target), threads)
        self.layout = layout_for(source, self.built)
        self.file = state_file(self.layout)
        embeds = embeds and self.layout.saved_bytes <= EMBEDDED
        self.code = object_code("built", source, self.built, self.layout, named(target), embeds)
        names = ["built", *(f"built_{part}" for part in PARTS)]
        names += ["built_part"] * (threads > 1) + ["built_prepare"] * bool(self.built.ahead)
        addresses = functions_of(self.code, names)
        integer, pointer = ctypes.c_int64, ctypes.c_void_p
        self.sizes = [symbol.name for symbol in source.sizes]
        numbers = [integer] * len(self.sizes) + [ctypes.c_double] * len(source.floats)
        arrays = [pointer] * (len(source.arguments) + len(self.built.results))
        kinds = {
            "built": [pointer, *numbers, *arrays, pointer],
            "built_init": [pointer, pointer, integer, integer],
            "built_save": [pointer, pointer, integer],
            "built_work_bytes": numbers,
            "built_part": [pointer, *numbers, *arrays, pointer, integer, integer, pointer],
            "built_prepare": [pointer],
            "built_error": [integer, pointer, ctypes.c_char_p, integer],
        }
        self.functions: dict[str, Any] = {
            name: ctypes.CFUNCTYPE(integer, *kinds[name])(addresses[name]) for name in names
        }

    def state(self, file: bytes | None = None, layout: int | None = None) -> Array:
        """A new state; raises AssertionError with the object's text where there is none."""
        block = np.zeros(self.layout.nbytes + 64, np.uint8)
        first = -block.ctypes.data % 64
        state = block[first : first + self.layout.nbytes]
        digest = self.layout.digest if layout is None else layout
        status = self.functions["built_init"](
            state.ctypes.data, file, 0 if file is None else len(file), digest
        )
        assert status == 0, self.text(status)
        return state

    def field(self, state: Array, label: str) -> Array:
        """The field of a state, in place."""
        member = next(m for m in self.layout.members if m.field.label == label)
        part = state[member.offset : member.offset + member.nbytes]
        return part.view(member.type.dtype.numpy).reshape(member.type.shape)

    def fields(self, state: Array) -> dict[str, Array]:
        """All fields by label."""
        return {m.field.label: self.field(state, m.field.label) for m in self.layout.members}

    def numbers(self, sizes: Mapping[str, Any]) -> list[Any]:
        return [sizes[name] for name in (*self.sizes, *self.source.floats)]

    def work_bytes(self, **sizes: Any) -> int:
        return int(self.functions["built_work_bytes"](*self.numbers(sizes)))

    def text(self, status: int, work: int | None = None, room: int = 400) -> str:
        """The text of a status."""
        buffer = ctypes.create_string_buffer(room)
        length = self.functions["built_error"](status, work, buffer, room)
        text = buffer.value.decode()
        assert length >= len(text.encode())
        return text

    def call(
        self, state: Array, arguments: Sequence[Array], threads: int | None = None, **sizes: Any
    ) -> tuple[list[Array], str]:
        """The results of a call, and the text of its status; on threads by `built_part`."""
        count = self.work_bytes(**sizes)
        work = np.full(max(count, 16) + 1, 0xA5, np.uint8)[1:]  # at an odd address
        results = []
        for type in self.built.results:
            known = {k: max(v, 0) for k, v in sizes.items() if k in self.sizes}
            results.append(np.full(type_at(type, known).shape, 77, type.dtype.numpy))
        given = [
            state.ctypes.data, *self.numbers(sizes),
            *(array.ctypes.data for array in (*arguments, *results)), work.ctypes.data,
        ]  # fmt: skip
        if threads is None:
            status = self.functions["built"](*given)
        else:
            status = self._on_threads(given, threads)
        return results, self.text(status, work.ctypes.data)

    def _on_threads(self, given: list[Any], threads: int) -> int:
        """The status of thread 0 of a team."""
        counter = np.zeros(1, np.int64)

        def run(thread: int) -> int:
            return int(self.functions["built_part"](*given, thread, threads, counter.ctypes.data))

        with ThreadPoolExecutor(threads) as pool:
            return next(iter(list(pool.map(run, range(threads)))))

"""The launches one by one: nest, loops and native code of each kernel against its body, op by op.

Each launch gets what it would read, and memory of its own full of poison where it only writes. So a
difference is its kernel's, and an element left unwritten shows. The loops are interpreted, which is
slow: only of small kernels, once each, and of a larger one whose native code is wrong, to tell its
lowering from LLVM. So are nests, where a kernel has one: what its sums give, before the epilogue;
of a kernel without sums, which elements are stored.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from graphc.codegen.kernels.lower import by_nest, lower, nest_of
from graphc.codegen.llvm.jit import KERNEL_FUNCTION
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.nests.verifier import verify_nest
from graphc.codegen.program.link import native_kernel
from graphc.codegen.target import Target
from graphc.debug.verification.comparing import Array, ArrayDifference, difference
from graphc.debug.verification.eager_stage import MOST_FINDINGS, SAME_BITS
from graphc.debug.verification.findings import Finding, StageResult
from graphc.debug.verification.launch_table import LaunchTable, NumberedLaunch
from graphc.debug.verification.op_kernels import OpKernels
from graphc.debug.verification.plan_stage import unwritten
from graphc.debug.verification.rules import with_sentences
from graphc.errors import GraphError
from graphc.ir.dims import evaluate
from graphc.ops.work import total
from graphc.schedule.box_updates import box_update
from graphc.schedule.plan import KernelSpec
from graphc.schedule.run_plan import POISON, run_plan

ALIGNMENT = 64
INTERPRETED = 20_000.0
"""Additions of a kernel up to which its loops are interpreted."""
BLAMED = 5_000_000.0
"""And of one whose native code is wrong."""


def launch_stage(
    table: LaunchTable, arrays: Sequence[Array], kernels: OpKernels, target: Target
) -> list[StageResult]:
    """Three stages: the nests and the loops of kernels, and the native code of launches."""
    return _Launches(table, kernels, target).stages(arrays)


class _Launches:
    def __init__(self, table: LaunchTable, kernels: OpKernels, target: Target):
        self.table = table
        self.kernels = kernels
        self.target = target
        self.nests: list[Finding] = []
        self.as_nests: set[str] = set()
        self.loops: list[Finding] = []
        self.native: list[Finding] = []
        self.interpreted: set[str] = set()
        self.names: set[str] = set()
        self.runs = 0

    def stages(self, arrays: Sequence[Array]) -> list[StageResult]:
        run_plan(self.table.plan, tuple(arrays), self._run)
        loops = f"{len(self.interpreted)} of {len(self.names)} kernels interpreted"
        native = f"{self.runs} runs of launches, {len(self.names)} kernels"
        nests = f"{len(self.as_nests)} of {len(self.names)} kernels run as nests"
        return [
            StageResult("nests", nests, SAME_BITS, tuple(self.nests[:MOST_FINDINGS])),
            StageResult("loops", loops, SAME_BITS, tuple(self.loops[:MOST_FINDINGS])),
            StageResult("native", native, SAME_BITS, tuple(self.native[:MOST_FINDINGS])),
        ]

    def _run(self, spec: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
        at = self.table.of(spec)
        expected = self.kernels.outputs(spec.body, [read.copy() for read in reads])
        self.runs += 1
        self.names.add(at.name)
        small = total(spec.body) <= INTERPRETED
        if small and at.name not in self.as_nests:
            finding = self._by_nest(at, spec, reads)
            self.nests += [] if finding is None else [finding]
        if small and spec.has_loops and at.name not in self.interpreted:
            finding = self._by_loops(at, spec, reads, expected)
            self.loops += [] if finding is None else [finding]
        finding = self._natively(at, spec, reads, writes, expected)
        self.native += [] if finding is None else [finding]
        for target, result in zip(writes, expected, strict=True):
            target[...] = result.reshape(target.shape)

    # -- nests -------------------------------------------------------------------------------

    def _by_nest(self, at: NumberedLaunch, spec: KernelSpec, reads: list[Array]) -> Finding | None:
        blame = f"the nest of {at.name}"
        try:
            nest = nest_of(at.kernel, self.target)
            if nest is None:
                return None
            self.as_nests.add(at.name)
            verify_nest(nest)
            values = self.kernels.values(spec.body, [read.copy() for read in reads])
            pairs = by_nest(at.kernel, self.target, at.sizes, spec.body, values)
        except GraphError as error:
            return Finding(blame, with_sentences(str(error)), at.place)
        apart = next(filter(None, (difference(*pair) for pair in pairs)), None)
        return None if apart is None else Finding(blame, f"{at}: {apart}", at.place)

    # -- loops -------------------------------------------------------------------------------

    def _by_loops(
        self, at: NumberedLaunch, spec: KernelSpec, reads: list[Array], expected: list[Array]
    ) -> Finding | None:
        self.interpreted.add(at.name)
        blame = f"the lowering of {at.name} (recipe {spec.recipe})"
        results = [_poisoned(array) for array in expected]
        if spec.recipe == "update" and (update := box_update(spec.body)) is not None:
            results = [reads[update.kept].copy()]  # what it writes to
        try:
            kernel = lower(at.kernel, self.target)
            memory = [*[read.copy() for read in reads], *results]
            interpreter.run(kernel, memory, sizes=at.sizes, fills=spec.fills)
        except GraphError as error:
            return Finding(blame, with_sentences(str(error)), at.place)
        first = _first(results, expected)
        return None if first is None else Finding(blame, _told(at, *first), at.place)

    # -- native code -------------------------------------------------------------------------

    def _natively(
        self, at: NumberedLaunch, spec: KernelSpec, reads: list[Array], writes: list[Array],
        expected: list[Array],
    ) -> Finding | None:  # fmt: skip
        try:
            results = _native(at, self.target, reads, writes)
        except GraphError as error:
            blame = f"the lowering of {at.name} (recipe {spec.recipe})"
            return Finding(blame, with_sentences(str(error)), at.place)
        first = _first(results, expected)
        if first is None:
            return None
        position = first[0]
        left = unwritten(results[position], expected[position])
        detail = f"{left} of its elements are left unwritten" if left else ""
        blame = self._blamed(at, spec, reads, expected)
        return Finding(blame, _told(at, *first), at.place, detail)

    def _blamed(
        self, at: NumberedLaunch, spec: KernelSpec, reads: list[Array], expected: list[Array]
    ) -> str:
        if not spec.has_loops:
            return f"the call of {at.name}, which Python computes"
        if total(spec.body) > BLAMED:
            return f"the kernel {at.name} (recipe {spec.recipe}): its lowering, or LLVM"
        finding = self._by_loops(at, spec, reads, expected)
        if finding is not None:
            return finding.blame
        return f"LLVM, or the text it is given: the loops of {at.name} are right"


def _told(at: NumberedLaunch, position: int, apart: ArrayDifference) -> str:
    return f"{at}, result {position}: {apart}"


def _first(
    results: Sequence[Array], expected: Sequence[Array]
) -> tuple[int, ArrayDifference] | None:
    for position, (x, y) in enumerate(zip(results, expected, strict=True)):
        apart = difference(x, y)
        if apart is not None:
            return position, apart
    return None


def _poisoned(like: Array) -> Array:
    return np.full(like.nbytes, POISON, np.uint8).view(like.dtype).reshape(like.shape)


def _native(
    at: NumberedLaunch, target: Target, reads: list[Array], writes: list[Array]
) -> list[Array]:
    """What the kernel writes, run on copies: arrays that share memory share it there too, and all
    that is not read is poison."""
    kernel = native_kernel(at.kernel, target, {})
    if kernel.variant is not None and at.sizes[kernel.variant.of.name] >= kernel.variant.of.least:
        kernel = kernel.variant.kernel
    memory = _SharedCopies([*reads, *writes])
    memory.fill(reads)
    addresses = [memory.address(array) for array in (*reads, *writes)]
    table = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
    scratch = np.full(evaluate(kernel.scratch_bytes, at.sizes) + ALIGNMENT, POISON, np.uint8)
    start = scratch.ctypes.data + -scratch.ctypes.data % ALIGNMENT
    sizes = (ctypes.c_int64 * max(len(kernel.sizes), 1))(*(at.sizes[n] for n in kernel.sizes))
    extent = evaluate(kernel.extent, at.sizes)
    KERNEL_FUNCTION(kernel.address)(table, sizes, 0, extent, start)
    return [memory.copy_of(array) for array in writes]


class _SharedCopies:
    """Copies of contiguous arrays in which those overlap that do so themselves."""

    def __init__(self, arrays: Sequence[Array]):
        spans = sorted(np.lib.array_utils.byte_bounds(array) for array in arrays if array.size)
        self._spans: list[tuple[int, int]] = []
        for begin, end in spans:
            if self._spans and begin < self._spans[-1][1]:
                first, last = self._spans.pop()
                begin, end = first, max(last, end)
            self._spans.append((begin, end))
        self._blocks = [_block(end - begin) for begin, end in self._spans]

    def fill(self, arrays: Sequence[Array]) -> None:
        """Copy the content of these."""
        for array in arrays:
            if array.size:
                ctypes.memmove(self.address(array), array.ctypes.data, array.nbytes)

    def address(self, array: Array) -> int:
        """Where the copy of an array begins."""
        if not array.size:
            return 0
        begin = array.ctypes.data
        number = next(i for i, (first, last) in enumerate(self._spans) if first <= begin < last)
        return int(self._blocks[number].ctypes.data) + begin - self._spans[number][0]

    def copy_of(self, array: Array) -> Array:
        """The copy's content now."""
        raw = ctypes.string_at(self.address(array), array.nbytes) if array.size else b""
        return np.frombuffer(raw, array.dtype).reshape(array.shape)


def _block(nbytes: int) -> Array:
    memory = np.full(nbytes + ALIGNMENT, POISON, np.uint8)
    return memory[-memory.ctypes.data % ALIGNMENT :]

"""What a driver knows of a kernel that is loaded, and of the steps that launch it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from graphc.codegen.llvm.loading import LoadedFunction
from graphc.codegen.program.barrier import PADDING
from graphc.errors import LoweringError
from graphc.ir.dims import Extent, evaluate, exact_quotient
from graphc.ir.instances import substitute
from graphc.ir.types import TensorType
from graphc.records import record
from graphc.schedule.plan import KernelSpec, Launch, Plan, all_steps

if TYPE_CHECKING:  # a program from disk needs no recipes
    from graphc.codegen.kernels.size_class import SizeClass


@record
class NativeKernel:
    """A kernel that is loaded: its function, range and scratch need."""

    symbol: str
    function: LoadedFunction
    extent: Extent
    scratch_bytes: Extent
    sizes: tuple[str, ...] = ()
    """Names of the sizes it takes, in order: of its own, s0, s1 …"""
    variant: SizeVariant | None = None

    @property
    def address(self) -> int:
        return self.function.address


@record
class SizeVariant:
    """The kernel that takes the place of another for sizes of a class."""

    of: SizeClass
    kernel: NativeKernel


def with_variants(kernels: Iterable[NativeKernel]) -> Iterator[NativeKernel]:
    """The kernels, and behind each the one that may take its place."""
    for kernel in kernels:
        yield kernel
        if kernel.variant is not None:
            yield kernel.variant.kernel


def scratch_needs(plan: Plan, kernels: Mapping[KernelSpec, NativeKernel]) -> list[Extent]:
    """Bytes of scratch that the launches of a plan take, each number once."""
    launches = [step for step in all_steps(plan) if isinstance(step, Launch)]
    needs = (
        substitute(kernel.scratch_bytes, own_sizes(step))
        for step in launches
        for kernel in with_variants([kernels[step.kernel]])
    )
    return list(dict.fromkeys(needs))


def scratch_stride(plan: Plan, kernels: Mapping[KernelSpec, NativeKernel]) -> int:
    """Bytes of scratch of each thread; of sizes known only at run time, in the example."""
    example = dict(plan.example)
    needs = (evaluate(need, example) for need in scratch_needs(plan, kernels))
    return -(-max(needs, default=0) // PADDING) * PADDING


def own_sizes(launch: Launch) -> dict[str, Extent]:
    """What the sizes of a launch's kernel stand for, by name."""
    return {f"s{i}": size for i, size in enumerate(launch.sizes)}


def slice_bytes(type: TensorType, count: Extent | None) -> Extent:
    """Bytes of one of `count` slices."""
    if count is None or count == 0:
        return type.nbytes
    size = exact_quotient(type.nbytes, count)
    if size is None:
        raise LoweringError(f"{type} has no {count} slices")
    return size

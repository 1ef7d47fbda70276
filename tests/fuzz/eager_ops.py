"""Ops of the table one at a time, in eager mode on native kernels: the bits of compiled code.

A case is a sample of an op, sizes for one of its extents, and how its operands lie in memory. At
each size the op runs eagerly, by kernels that serve several sizes, and as a graph compiled for that
size. Gradients are asked for twice: by a rule that runs as one program, and op by op.

`python -m tests.fuzz.eager_ops [names]` walks through every sample of every op.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import frontend as torch
import graphc
from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.tensors.state import swap_observer
from graphc import ops
from graphc.errors import ContentError, GradientError, GraphError, IndexRangeError
from graphc.ir.builder import GraphBuilder
from graphc.ir.types import TensorType
from tests.fuzz.frame import Broken, Fuzzer, fails
from tests.fuzz.narrow_programs import PROGRAMS
from tests.fuzz.op_sizes import (
    DTYPES,
    SPREAD,
    applied,
    drawn_opening,
    looked_up,
    same_bits,
    samples,
)

Array = np.ndarray[Any, Any]
LAYOUTS = ("rows", "columns", "strided")


@dataclass(frozen=True)
class Case:
    """Sample `number` of an op at `sizes` of the extent (None: as it is)."""

    op: str
    number: int
    extent: int | None
    sizes: tuple[int, ...]
    layout: str = "rows"
    dtype: str = "f32"


def draw(random: np.random.Generator, size: int) -> Case:
    name, number, extent = drawn_opening(random)
    sizes = random.choice(SPREAD, min(size, 4), replace=False)
    layout, dtype = str(random.choice(LAYOUTS)), str(random.choice(DTYPES))
    return Case(name, number, extent, (extent, *map(int, sizes)), layout, dtype)


def check(case: Case) -> str:
    ends = [_check_at(case, n) for n in case.sizes or (0,)]
    return "compared" if "compared" in ends else "does not fit"


def _check_at(case: Case, n: int) -> str:
    op = looked_up(case.op)
    operands, attributes = samples(op, case.dtype)[case.number]
    if case.extent is not None:
        operands, attributes = _at(case.extent, n, operands, attributes)
    try:
        compiled = graphc.compile(_graph(op, operands, attributes), threads=1)
    except GraphError:
        return "does not fit"
    expected = _outcome(lambda: compiled(*[x.copy() for x in operands]))
    with _native():
        tensors = [torch.from_numpy(_laid_out(x, case.layout)) for x in operands]
        actual = _outcome(lambda: _arrays(applied(CONTEXT, op, tensors, attributes)))
        _compare(case, n, actual, expected, "compiled")
        if not isinstance(expected, type):
            gradients = [_gradients(op, tensors, attributes, watched) for watched in (False, True)]
            # Where a sample has other sizes its attributes may not fit: then they do in neither.
            if case.extent is None and isinstance(gradients[0], type):
                raise Broken(f"{case}: {gradients[0]}")
            _compare(case, n, *gradients, "its gradients op by op")
    return "compared"


def _at(extent: int, n: int, operands: Any, attributes: Any) -> tuple[Any, Any]:
    """A sample with another size for an extent."""

    def other(shape: Any) -> tuple[int, ...]:
        return tuple([n if each == extent else each for each in shape])

    if "shape" in attributes:
        attributes = {**attributes, "shape": other(attributes["shape"])}
    arrays = [
        np.resize(x, other(x.shape)) if x.size else np.zeros(other(x.shape), x.dtype)
        for x in operands
    ]
    return tuple(arrays), attributes


def _graph(op: Any, operands: Any, attributes: Any) -> Any:
    builder = GraphBuilder("compiled")
    inputs = [builder.input(f"x{i}", TensorType.of(x)) for i, x in enumerate(operands)]
    return builder.finish(*applied(builder, op, inputs, attributes))


def _laid_out(x: Array, layout: str) -> Array:
    """The same elements, elsewhere in memory."""
    if layout == "columns":
        return np.array(x, order="F")
    if layout == "strided" and x.ndim:
        return np.repeat(x, 2, axis=-1)[..., ::2]
    return x.copy()


@contextmanager
def _native() -> Iterator[None]:
    before = torch.get_eager_backend()
    torch.set_eager_backend("native")
    try:
        yield
    finally:
        torch.set_eager_backend(before)


def _arrays(results: Any) -> tuple[Array, ...]:
    return tuple([np.array(x.detach().numpy(), order="C") for x in results])


def _gradients(op: Any, tensors: list[Any], attributes: Any, watched: bool) -> Any:
    """Of all results by all operands that have some. While ops are watched, they run one by one."""
    before = swap_observer((lambda *asked: nullcontext()) if watched else None)
    try:
        leaves = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in tensors]
        results = [y for y in applied(CONTEXT, op, leaves, attributes) if y.requires_grad]
        if not results:
            return ()
        random = np.random.default_rng(0)
        weights = [
            torch.from_numpy(random.standard_normal(y.shape).astype(y.detach().numpy().dtype))
            for y in results
        ]
        asked = [x for x in leaves if x.requires_grad]
        gradients = torch.autograd.grad(results, asked, weights, allow_unused=True)
        return _arrays([g for g in gradients if g is not None])
    except GradientError:  # some have a gradient in the functions of the frontend alone
        return ()
    except GraphError as error:
        return type(error)
    finally:
        swap_observer(before)


def _outcome(run: Any) -> Any:
    """The results, or the class of the error that contents of operands raise."""
    try:
        return run()
    except (IndexRangeError, ContentError) as error:
        return type(error)


def _compare(case: Case, n: int, actual: Any, expected: Any, what: str) -> None:
    if isinstance(expected, type) or isinstance(actual, type):
        if expected is not actual:
            raise Broken(f"{case} at {n}: {actual}, {what} {expected}")
        return
    for one, other in zip(actual, expected, strict=True):
        if not same_bits(one, other):
            raise Broken(f"{case} at {n}: {one}, {what} {other}")


def smaller(case: Case) -> Iterator[Case]:
    for i in range(1, len(case.sizes)):
        yield replace(case, sizes=case.sizes[:i] + case.sizes[i + 1 :])
    if case.layout != "rows":
        yield replace(case, layout="rows")
    if case.dtype != "f32":
        yield replace(case, dtype="f32")


FUZZER = Fuzzer("eager_ops", draw, check, lambda case: f"check({case!r})", smaller)


def every_sample(names: list[str]) -> Iterator[Case]:
    """Each sample as it is, and in columns."""
    for op in (*ops.table(), *PROGRAMS.values()):
        if not names or op.name in names:
            for number in range(len(samples(op))):
                for layout in ("rows", "columns"):
                    yield Case(op.name, number, None, (), layout)


def main() -> int:
    """0 where nothing was found."""
    cases = list(every_sample(sys.argv[1:]))
    errors = [(case, error) for case in cases if (error := fails(FUZZER, case)) is not None]
    for case, error in errors:
        print(f"{FUZZER.program(case)}: {error!r}"[:1000], flush=True)
    print(f"{len(cases)} cases, {len(errors)} findings")
    return int(bool(errors))


if __name__ == "__main__":
    sys.exit(main())

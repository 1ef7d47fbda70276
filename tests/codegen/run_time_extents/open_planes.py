"""Convolutions over planes of any size: what the tests of several strategies share."""

from __future__ import annotations

from typing import Any

from graphc import ops
from graphc.codegen.target import named
from graphc.ir.builder import Var
from graphc.ir.dims import Extent, dim
from graphc.ops import contract
from graphc.ops.movement import transpose
from tests.codegen.run_time_extents.kernels import TARGETS, Operand, Program

H, W = dim("h", 1), dim("w", 1)
HIGH, BROAD = dim("h", 7), dim("w", 9)
ALL_TARGETS = [*TARGETS, named("x86-64-v3"), named("aarch64")]


def convolution(
    x: tuple[Extent, ...], w: tuple[int, ...], stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0, dilation: int = 1, groups: int = 1, packed: bool = False,
) -> tuple[Program, list[Operand]]:  # fmt: skip
    """A convolution, a residual added and relu behind it. `packed`: the weight is stored with
    output channels side by side."""
    rank = len(x) - 2

    def each(value: int | tuple[int, ...]) -> tuple[int, ...]:
        return value if isinstance(value, tuple) else (value,) * rank

    geometry: dict[str, Any] = {"stride": each(stride), "padding": each(padding),
                                "dilation": each(dilation), "groups": groups}  # fmt: skip

    def program(x: Var, w: Var, residual: Var) -> Var:
        weight = transpose(w, permutation=(rank + 1, *range(rank + 1))) if packed else w
        return ops.relu(contract.conv(x, weight, **geometry) + residual)

    places = tuple(
        (size + 2 * p - dilation * (taps - 1) - 1) // s + 1
        for size, p, s, taps in zip(x[2:], each(padding), each(stride), w[2:], strict=True)
    )
    stored = (*w[1:], w[0]) if packed else w
    return program, [x, stored, (x[0], w[0], *places)]


def planes(*sizes: tuple[int, ...]) -> list[dict[str, int]]:
    return [dict(zip("nhw", each, strict=False)) for each in sizes]

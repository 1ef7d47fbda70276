"""A matrix product with a bias: what a linear layer is, as one op with one gradient rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.errors import ShapeError
from graphc.ir.handle import broadcast_to
from graphc.ops import reduce as r
from graphc.ops.contract import matmul, paired_matmul
from graphc.ops.elementwise import cast
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import Arrays
from graphc.ops.movement import transpose


def _addmm(bias: Any, x: Any, y: Any) -> Any:
    """bias [n] + x [m, k] · y [k, n]."""
    if len(x.shape) != 2 or len(y.shape) != 2 or bias.shape != y.shape[1:]:
        raise ShapeError(
            f"addmm of {bias.tensor_type}, {x.tensor_type}, {y.tensor_type}: takes [n], [m, k] and "
            "[k, n]"
        )
    product = matmul(x, y)
    return product + broadcast_to(bias, product.shape)


def addmm_of_halves(bias: Any, x: Any, y: Any) -> Any:
    """The same of f16 or bf16, in f32."""
    product = paired_matmul(x, y)
    return product + broadcast_to(cast(bias, dtype=product.dtype), product.shape)


def _addmm_vjp(g: Any, out: Any, bias: Any, x: Any, y: Any) -> tuple[Any, ...]:
    return (
        lambda: r.sum(g, axes=(0,)),
        lambda: matmul(g, transpose(y, permutation=(1, 0))),
        lambda: matmul(transpose(x, permutation=(1, 0)), g),
    )


class Addmm(Composite):
    """A composite that NumPy computes by two calls, not as an interpreted graph."""

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        return (self.direct(attributes)(*arrays),)

    def direct(self, attributes: dict[str, Any]) -> Callable[..., Any]:
        def run(bias: Any, x: Any, y: Any) -> Any:
            out = np.matmul(x, y)
            out += bias
            return out

        return run


addmm = Addmm("addmm", _addmm, vjp=_addmm_vjp, samples=lambda m: [
    m(m.normal(5), m.normal(3, 4), m.normal(4, 5)), m(m.normal(1), m.normal(1, 1), m.normal(1, 1)),
    m(m.normal(3), m.normal(2, 0), m.normal(0, 3)), m(m.normal(3), m.normal(0, 2), m.normal(2, 3)),
    m(m.normal(20), m.normal(2, 70), m.normal(70, 20)),
])  # fmt: skip

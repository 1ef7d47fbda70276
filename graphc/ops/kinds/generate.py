"""Generators: each element as a function of its own position."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.ir.types import TensorType
from graphc.ops.kinds.numpy_algebra import NUMPY
from graphc.ops.kinds.op import Arrays, Op, Types, keyword_parameters

BLOCK = 24 << 10
"""Elements that are generated together: fewer make more calls of NumPy than they take time, more
make arrays that the C library maps anew each time."""


class Generate(Op):
    """`element(s, index, read, types, **attributes)` computes the results' elements from their
    coordinate, as one thunk per result: `index` holds i64 values of the algebra,
    `read(operand, coordinate)` an operand's element at constant coordinates.
    `result(types, **attributes)` gives the result types."""

    kind = "generate"

    def __init__(
        self,
        name: str,
        result: Callable[..., Types],
        element: Callable[..., tuple[Any, ...]],
        *,
        cost: int = 1,
        **rest: Any,
    ):
        super().__init__(name, parameters=keyword_parameters(result), **rest)
        self.result_rule = result
        self.element = element
        self.cost = cost

    def infer(self, types: Types, attributes: dict[str, Any]) -> Types:
        return self.result_rule(types, **attributes)

    def compute(self, arrays: Arrays, attributes: dict[str, Any]) -> Arrays:
        types = tuple(TensorType.of(array) for array in arrays)
        results = []
        for position, type in enumerate(self.infer(types, attributes)):
            result = np.empty(type.shape, type.dtype.numpy)
            # In blocks that stay in the cache: a random number is a hundred operations.
            rows = max(1, BLOCK // max(1, math.prod(type.shape[1:])))
            for start in range(0, type.shape[0] if type.shape else 1, rows):
                block = result[start : start + rows] if type.shape else result
                grid: tuple[Any, ...] = np.indices(block.shape, sparse=True)
                if grid:
                    grid = (grid[0] + start, *grid[1:])
                elements = self.element(
                    NUMPY, grid, lambda operand, at: arrays[operand][at], types, **attributes
                )
                block[...] = elements[position]()
            results.append(result)
        return tuple(results)

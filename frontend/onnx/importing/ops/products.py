"""Matrix products, sums of products, determinants."""

from __future__ import annotations

from typing import Any

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.onnx.importing.declarations import onnx_op
from frontend.onnx.importing.unsigned import on_unsigned


@onnx_op("MatMul")
def matmul(x: Tensor, y: Tensor) -> Any:
    return on_unsigned(torch.matmul)(x, y)


@onnx_op("Gemm")
def gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, *, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0, broadcast: int = 0,
) -> Any:  # fmt: skip
    a = a.t() if transA else a
    b = b.t() if transB else b
    if not a.dtype.is_float:
        product = on_unsigned(torch.matmul)(a, b) * int(alpha)
        return product if c is None else product + c * int(beta)
    if c is None:
        return a @ b if alpha == 1 else alpha * (a @ b)
    if alpha == 1 and beta == 1:
        return torch.addmm(c, a, b)
    return alpha * (a @ b) + beta * c


@onnx_op("Einsum")
def einsum(*xs: Tensor, equation: str) -> Any:
    return torch.einsum(equation, *xs)


@onnx_op("Det")
def det(x: Tensor) -> Any:
    return torch.linalg.det(x)

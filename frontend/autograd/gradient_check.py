"""Gradients checked against finite differences: `gradcheck`, `gradgradcheck`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from frontend.autograd import grad
from frontend.engine.tensors.state import enable_grad, no_grad
from frontend.engine.tensors.tensor import Tensor, from_data
from frontend.functions.random import randn
from graphc.ir.types import DType


class GradcheckError(RuntimeError):
    """The gradient of a function differs from its finite differences."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    fast_mode: bool = False,
) -> bool:
    """Whether the gradients of `func(*inputs)` with respect to the float64 inputs that require grad
    equal central differences (f(x + eps) - f(x - eps)) / 2 eps, element by element:
    |a - n| <= atol + rtol · |n|. Raises GradcheckError where not, or gives False without
    `raise_exception`. `nondet_tol` bounds how far two backward passes may differ.
    """
    operands = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    try:
        _check(func, operands, eps, atol, rtol, nondet_tol, check_grad_dtypes)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(
    func: Any, inputs: tuple[Any, ...], eps: float, atol: float, rtol: float, nondet: float,
    dtypes: bool,
) -> None:  # fmt: skip
    chosen = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    if not chosen:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the "
            "inputs have requires_grad=True."
        )
    for x in chosen:
        if x.dtype is not DType.f64:
            raise ValueError(
                f"gradcheck compares with finite differences, which needs float64 inputs; one is "
                f"{x.tensor_type}"
            )
    outputs = _tensors(func(*inputs))
    if not any(x.requires_grad for x in outputs):
        raise ValueError("gradcheck: no output of the function requires grad")
    for number, output in enumerate(outputs):
        if not output.requires_grad:
            continue
        analytic = _jacobians(output, chosen, dtypes)
        for a, b in zip(analytic, _jacobians(output, chosen, dtypes)):
            if np.abs(a - b).max(initial=0.0) > nondet:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and "
                    "grad_output multiple times gives different values"
                )
        for position, x in enumerate(chosen):
            numeric = _numeric(lambda: _tensors(func(*inputs))[number], x, eps)  # noqa: B023
            difference = np.abs(analytic[position] - numeric)
            if not (difference <= atol + rtol * np.abs(numeric)).all():
                raise GradcheckError(
                    f"Jacobian mismatch for output {number} with respect to input {position},\n"
                    f"numerical:{numeric}\nanalytical:{analytic[position]}\n"
                )


def _tensors(result: Any) -> list[Tensor]:
    listed = [result] if isinstance(result, Tensor) else list(result)
    return [x for x in listed if isinstance(x, Tensor)]


def _jacobians(output: Tensor, inputs: Sequence[Tensor], dtypes: bool) -> list[np.ndarray]:
    """Per input: [elements of it, elements of the output]."""
    columns: list[list[np.ndarray]] = [[] for _ in inputs]
    for index in range(output.numel()):
        weight = np.zeros(output.numel(), output.dtype.numpy)
        weight[index] = 1
        seed = from_data(weight.reshape(output.shape))
        gradients = grad(output, inputs, seed, retain_graph=True, allow_unused=True)
        for column, x, g in zip(columns, inputs, gradients):
            if g is not None and dtypes and g.dtype is not x.dtype:
                raise GradcheckError("Gradient has dtype mismatch")
            array = np.zeros(x.shape) if g is None else g.detach().numpy()
            column.append(np.array(array).reshape(-1))
    return [
        np.stack(column, axis=1) if column else np.zeros((x.numel(), 0))
        for column, x in zip(columns, inputs)
    ]


def _numeric(run: Callable[[], Tensor], x: Tensor, eps: float) -> np.ndarray:
    """[elements of x, elements of the output] by central differences."""
    rows = []
    array = x.detach().numpy()
    with no_grad():
        for index in np.ndindex(array.shape):
            value = array[index]
            array[index] = value + eps
            high = np.array(run().detach().numpy(), np.float64).reshape(-1)
            array[index] = value - eps
            low = np.array(run().detach().numpy(), np.float64).reshape(-1)
            array[index] = value
            rows.append((high - low) / (2 * eps))
    return np.stack(rows) if rows else np.zeros((0, run().numel()))


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    fast_mode: bool = False,
) -> bool:
    """`gradcheck` of the gradient of `func`, weighted by `grad_outputs` (random by default)."""
    points = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = [x for x in _tensors(func(*points)) if x.requires_grad]
    if grad_outputs is None:
        weights = tuple(randn(tuple(x.shape), dtype=x.dtype).requires_grad_() for x in outputs)
    else:
        weights = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)

    def gradients(*values: Any) -> tuple[Tensor, ...]:
        operands, seeds = values[: len(points)], values[len(points) :]
        chosen = [x for x in operands if isinstance(x, Tensor) and x.requires_grad]
        results = [x for x in _tensors(func(*operands)) if x.dtype.is_float]
        second = grad(results, chosen, seeds, create_graph=True, allow_unused=True)
        return tuple(g for g in second if g is not None and g.requires_grad)

    return gradcheck(
        enable_grad()(gradients), (*points, *weights), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_grad_dtypes=check_grad_dtypes,
    )  # fmt: skip

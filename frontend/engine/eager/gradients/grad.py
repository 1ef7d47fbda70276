"""`backward` and `grad`: what users ask of the reverse sweep.

in : outputs (tensors or lists of them), gradients for them (ones for a scalar without one)
out: gradients of leaves, added to `.grad`, or of chosen inputs
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from frontend.engine.eager.dispatch import CONTEXT, filled
from frontend.engine.eager.gradients.backward import accumulate, run_backward, writable
from frontend.engine.tensors.batch_mode import over_rows
from frontend.engine.tensors.state import STATE, set_grad_enabled
from frontend.engine.tensors.tensor import Tensor, without_data
from graphc.errors import GraphError, ShapeError, TraceError
from graphc.ir.builder import user_location
from graphc.ops import movement as m

UNUSED = (
    "The differentiated Tensor at index {} appears to not have been used in the graph. Set "
    "allow_unused=True if this is the desired behavior."
)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` (weighted by `grad_tensors`) to the `.grad` of the leaves,
    or of `inputs` only. `grad_variables` is the former name of `grad_tensors`. Raises RuntimeError
    for a non-scalar without a weight."""
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, 2
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    keep = create_graph if retain_graph is None else retain_graph
    roots = _roots(listed(tensors), grad_tensors)
    if inputs is None:
        run_backward(roots, None, retain_graph=keep, create_graph=create_graph)
        return
    chosen = _on_tape(inputs)
    if not chosen:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    for tensor in chosen:
        tensor.retain_grad()  # from now on, as in PyTorch
    gradients = run_backward(roots, chosen, retain_graph=keep, create_graph=create_graph)
    with set_grad_enabled(create_graph):
        for tensor, gradient in zip(chosen, gradients):
            if gradient is not None and tensor._edge is None:
                accumulate(tensor, gradient, create_graph)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """d(Σ outputs · grad_outputs) / d(inputs), as a tuple; `.grad` is left alone.

    An input without influence is an error, or None with `allow_unused`, or zeros with
    `materialize_grads`. With `is_grads_batched` each of `grad_outputs` has an axis more in front,
    over which the gradients are computed at once, or one by one, as by `vmap`. `only_inputs`
    changes nothing.
    """
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other parts of the graph, please use "
            "torch.autograd.backward.",
            FutureWarning,
            2,
        )
    if is_grads_batched:
        return _batched(
            outputs, listed(inputs), grad_outputs, retain_graph, create_graph, allow_unused,
            materialize_grads,
        )  # fmt: skip
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    keep = create_graph if retain_graph is None else retain_graph
    chosen = _on_tape(inputs)
    for tensor in chosen:
        if not tensor._requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    roots = _roots(listed(outputs), grad_outputs)
    gradients = run_backward(roots, chosen, retain_graph=keep, create_graph=create_graph)
    if materialize_grads:
        return tuple(
            writable(filled(0, x.dtype, x.tensor_type.shape)) if g is None else g
            for x, g in zip(chosen, gradients)
        )
    for index, gradient in enumerate(gradients):
        if gradient is None and not allow_unused:
            raise RuntimeError(UNUSED.format(index))
    return tuple(_of_inputs(inputs, gradients))


def _batched(
    outputs: Any, inputs: Sequence[Tensor], grad_outputs: Any, retain_graph: bool | None,
    create_graph: bool, allow_unused: bool | None, materialize_grads: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """`grad` for each row of `grad_outputs`, stacked."""
    weights = listed(grad_outputs)
    rows = weights[0].shape[0] if weights and weights[0].dim() else 0
    if not rows or any(not each.dim() or each.shape[0] != rows for each in weights):
        raise RuntimeError(
            "is_grads_batched=True: the grad_outputs need a first axis of one size above 0"
        )
    keep = create_graph if retain_graph is None else retain_graph
    unused: list[bool] = []

    def row(*seeds: Tensor) -> list[Tensor]:
        gradients = grad(
            outputs, inputs, seeds, keep, create_graph, True, allow_unused, False, materialize_grads
        )
        unused[:] = [gradient is None for gradient in gradients]
        return [gradient for gradient in gradients if gradient is not None]

    with set_grad_enabled(create_graph):
        parts = iter(over_rows(row, weights, rows))
        return tuple(None if none else _joined(next(parts)) for none in unused)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else CONTEXT.apply(m.concat, tuple(parts), {"axis": 0})[0]


def listed(tensors: Any) -> list[Tensor]:
    """One tensor, or an iterable of them, as a list."""
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _on_tape(inputs: Any) -> list[Tensor]:
    """What stands on the tape for inputs: of a sparse tensor its values."""
    return [getattr(tensor, "_differentiated", tensor) for tensor in listed(inputs)]


def _of_inputs(inputs: Any, gradients: Sequence[Tensor | None]) -> list[Any]:
    """Gradients like their inputs: of a sparse tensor sparse."""
    return [
        tensor._with(gradient) if gradient is not None and _is_sparse(tensor) else gradient
        for tensor, gradient in zip(listed(inputs), gradients)
    ]


def _is_sparse(tensor: Any) -> bool:
    return hasattr(tensor, "_differentiated")


def _roots(tensors: Sequence[Tensor], gradients: Any) -> list[tuple[Tensor, Tensor]]:
    """Each tensor with its gradient: ones for a scalar without one."""
    if STATE.mode is not None and STATE.mode.in_region:
        raise TraceError(
            "backward() or grad() in the body of a traced loop or branch",
            hint="differentiate outside of it: gradients go through loops and branches",
            location=user_location(),
        )
    weights = [None] * len(tensors) if gradients is None else gradients
    weights = [weights] if isinstance(weights, Tensor) else list(weights)
    if len(weights) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(weights)} gradients")
    return [(tensor, _root_gradient(tensor, g)) for tensor, g in zip(tensors, weights)]


def _root_gradient(tensor: Tensor, gradient: Any) -> Tensor:
    if not tensor._requires_grad:
        raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
    if gradient is None:
        if tensor.numel() != 1:
            raise GraphError(
                "grad can be implicitly created only for scalar outputs, "
                f"not for {tensor.tensor_type}",
                hint="sum() or mean() it, or pass the gradient: backward(gradient)",
                location=user_location(),
            )
        if tensor.is_complex():
            raise RuntimeError(
                "grad can be implicitly created only for real scalar outputs but got "
                f"{tensor.dtype}"
            )
        if tensor.is_meta:
            return without_data(tensor.tensor_type)
        return filled(1, tensor.dtype, tensor.tensor_type.shape)
    if not isinstance(gradient, Tensor):
        raise TypeError(
            f"gradients can be either Tensors or None, but got {type(gradient).__name__}"
        )
    if gradient.tensor_type.shape != tensor.tensor_type.shape:
        raise ShapeError(
            f"Mismatch in shape: grad_output[0] has a shape of {gradient.shape} and output[0] has "
            f"a shape of {tensor.shape}."
        )
    return gradient if gradient.dtype is tensor.dtype else gradient.to(tensor.dtype)

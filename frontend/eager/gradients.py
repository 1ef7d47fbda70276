"""`backward` and `grad`: what users ask of the reverse sweep.

in : outputs (tensors or lists of them), gradients for them (ones for a scalar without one)
out: gradients of leaves, added to `.grad`, or of chosen inputs
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.eager.backward import accumulate, run_backward, writable
from frontend.eager.dispatch import filled
from frontend.tensors.state import STATE, set_grad_enabled
from frontend.tensors.tensor import Tensor, without_data
from graphc.errors import GraphError, TraceError
from graphc.ir.builder import user_location

UNUSED = (
    "The differentiated Tensor at index {} appears to not have been used in the graph. Set "
    "allow_unused=True if this is the desired behavior."
)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` (weighted by `grad_tensors`) to the `.grad` of the leaves,
    or of `inputs` only. Raises RuntimeError for a non-scalar without a weight."""
    keep = create_graph if retain_graph is None else retain_graph
    roots = _roots(_listed(tensors), grad_tensors)
    if inputs is None:
        run_backward(roots, None, retain_graph=keep, create_graph=create_graph)
        return
    chosen = _listed(inputs)
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
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """d(Σ outputs · grad_outputs) / d(inputs), as a tuple; `.grad` is left alone.

    An input without influence is an error, or None with `allow_unused`, or zeros with
    `materialize_grads`.
    """
    if is_grads_batched:
        raise RuntimeError("is_grads_batched is not supported; call grad once per row")
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    keep = create_graph if retain_graph is None else retain_graph
    chosen = _listed(inputs)
    for tensor in chosen:
        if not tensor._requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    roots = _roots(_listed(outputs), grad_outputs)
    gradients = run_backward(roots, chosen, retain_graph=keep, create_graph=create_graph)
    if materialize_grads:
        return tuple(
            writable(filled(0, x.dtype, x.tensor_type.shape)) if g is None else g
            for x, g in zip(chosen, gradients)
        )
    for index, gradient in enumerate(gradients):
        if gradient is None and not allow_unused:
            raise RuntimeError(UNUSED.format(index))
    return tuple(gradients)


def _listed(tensors: Any) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _roots(tensors: Sequence[Tensor], gradients: Any) -> list[tuple[Tensor, Tensor]]:
    """Each tensor with its gradient: ones for a scalar without one."""
    if STATE.session is not None and STATE.session.regions:
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
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {gradient.shape} and output[0] has "
            f"a shape of {tensor.shape}."
        )
    return gradient if gradient.dtype is tensor.dtype else gradient.to(tensor.dtype)

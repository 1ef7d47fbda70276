"""What the results of a compiled call are beside their values: leaves, of a class of their own, or
the end of a step that is over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.engine.eager.gradients.backward import behind, leaves_behind
from frontend.engine.eager.gradients.non_differentiable import mark_non_differentiable
from frontend.engine.tensors.tensor import Tensor, added_attributes, make
from graphc.errors import GraphError, TraceError
from graphc.ir.builder import Var, user_location
from graphc.ir.types import TensorType


def dressed(results: Sequence[Tensor]) -> list[tuple[int, type, dict[str, Any]]]:
    """Position, class and added attributes of the results that are more than plain tensors. Raises
    TraceError where an attribute is a tensor of the trace."""
    wrapped = []
    for position, result in enumerate(results):
        added = added_attributes(result)
        if any(isinstance(x, Tensor) and type(x._value) is Var for x in added.values()):
            raise TraceError(
                "an attribute of a result is a tensor that is being traced",
                hint="return it beside the result",
                location=user_location(),
            )
        if added or type(result) is not Tensor:
            wrapped.append((position, type(result), added))
    return wrapped


def put_on(dressed: Sequence[tuple[int, type, dict[str, Any]]], new: Sequence[Tensor]) -> None:
    """Give new results their classes and attributes."""
    for place, dress, added in dressed:
        new[place].__class__ = dress
        new[place]._instance_state.update(added)


def moved(grads: Sequence[Any], results: int, gone: int) -> list[Any]:
    """Where gradients go, with the positions behind the results moved up by `gone`."""
    return [
        (target, p if p is None or p < results else p - gone, kind) for target, p, kind in grads
    ]


def leaves(results: Sequence[Tensor]) -> list[int]:
    """Which results are leaves that require gradients, made inside. Raises TraceError where
    gradients came to one, or will: the one a call returns is not that of the trace."""
    positions = {id(x): i for i, x in enumerate(results) if x._requires_grad and x._edge is None}
    derived = [x for x in results if x._edge is not None]
    behind = {i for x in derived for i in leaves_behind(x)} if positions else set()
    if behind & positions.keys() or any(x._grad is not None for x in results):
        raise TraceError(
            "a tensor that is made inside is returned, and has a gradient or will be given one",
            hint="make it outside and pass it, or return its gradient",
            location=user_location(),
        )
    return list(positions.values())


def refuse_eager_gradients(results: Sequence[Tensor]) -> None:
    """Raise TraceError where a result depends on an op whose gradient is computed eagerly only."""
    for node in {x for each in results if each._edge is not None for x in behind(each._edge[0])}:
        refusal = getattr(getattr(node, "op", None), "refuse_trace", None)
        if refusal is not None:
            refusal(node.location)


def closed(name: str, type: TensorType) -> Any:
    """The place on the tape of what a compiled training step returns, named as PyTorch names what
    its compiler made."""
    result = make(None, type)
    mark_non_differentiable(name, (), result, _over, "CompiledFunctionBackward")
    return result._edge


def _over(name: str) -> Exception:
    return GraphError(
        f"backward through a result of the compiled {name}, which calls backward() itself: what "
        "it would need is gone when the call returns",
        hint="call this backward() inside too, or compile the forward alone",
        location=user_location(),
    )

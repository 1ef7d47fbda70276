"""`torch.autograd.graph`: the nodes of the tape, and what is done with the values they save."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from frontend.engine.eager.tape import AccumulateGrad, TapeNode, edge_of
from frontend.engine.tensors.hooks import RemovableHandle
from frontend.engine.tensors.memory_tracking import count_write
from frontend.engine.tensors.state import no_grad, swap_saved_hooks, tracing
from frontend.engine.tensors.tensor import Tensor
from graphc.errors import TraceError

__all__ = [
    "GradientEdge", "Node", "get_gradient_edge", "increment_version",
    "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip


class _NodeType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TapeNode | AccumulateGrad)


class Node(metaclass=_NodeType):
    """What `grad_fn` is an instance of."""


class saved_tensors_hooks:
    """In the block, `pack_hook(tensor)` is called for each value that a node saves for backward,
    and what it returns is kept; backward takes `unpack_hook` of that. Raises TraceError in a trace,
    where the compiler decides what is kept (`compile(..., saved_bytes=…)`)."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]):
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook
        self._before: list[Any] = []

    def __enter__(self) -> None:
        if tracing():
            raise TraceError(
                "saved_tensors_hooks in a trace: the compiler decides what is kept for backward",
                hint="compile(..., saved_bytes=…) limits its memory",
            )
        self._before.append(swap_saved_hooks((self.pack_hook, self.unpack_hook)))

    def __exit__(self, *error: Any) -> None:
        swap_saved_hooks(self._before.pop())


class save_on_cpu(saved_tensors_hooks):
    """Values saved for backward are kept as copies on the CPU, where everything is."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda"):
        super().__init__(lambda tensor: tensor.detach().clone(), lambda packed: packed)


class GradientEdge:
    """Where the gradient of a tensor goes: result `output_nr` of `node`."""

    def __init__(self, node: Any, output_nr: int):
        self.node = node
        self.output_nr = output_nr

    def __iter__(self) -> Any:
        return iter((self.node, self.output_nr))


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of a tensor. Raises RuntimeError where it requires no gradient."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not "
                           "require gradients")  # fmt: skip
    node, index = edge_of(tensor)
    if isinstance(node, Tensor):
        node = (tensor + 0).grad_fn.next_functions[0][0]
    return GradientEdge(node, index)


def increment_version(tensor: Any) -> None:
    """Count a change in place that was made behind the tape's back."""
    for each in (tensor,) if isinstance(tensor, Tensor) else tensor:
        count_write(each._counter)


class _Group:
    """The hooks of several tensors, removed together."""

    def __init__(self, handles: Sequence[RemovableHandle]):
        self.handles = tuple(handles)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Group:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> Any:
    """`fn(gradients)` once the gradients of all `tensors` were computed (mode "all": those of
    tensors that got none never come, and then it is not called), or `fn(gradient)` with the first
    (mode "any"). Returns a handle. Raises ValueError for another mode."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    seen: dict[int, Tensor] = {}

    def one(index: int) -> Callable[[Tensor], None]:
        def hook(gradient: Tensor) -> None:
            first = not seen
            seen[index] = gradient
            if mode == "any" and first:
                fn(gradient)
            if len(seen) < len(tensors):
                return
            gradients = [seen[each] for each in range(len(tensors))]
            seen.clear()
            if mode == "all":
                with no_grad():
                    fn(gradients)

        return hook

    return _Group([tensor.register_hook(one(i)) for i, tensor in enumerate(tensors)])

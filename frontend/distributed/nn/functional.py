"""`torch.distributed.nn.functional`: collectives that give new tensors, which gradients go through:
that of a result is exchanged the other way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.autograd.function import Function
from frontend.distributed import collectives
from frontend.distributed.alltoall import all_to_all as exchange_all
from frontend.distributed.collectives import ReduceOp
from frontend.distributed.groups import get_rank, get_world_size
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import empty_like, zeros_like
from frontend.namespace.stubs import stubs

__all__ = ["all_gather", "all_reduce", "all_to_all", "broadcast", "reduce_scatter"]

globals().update(stubs("distributed.nn.functional"))


class AllReduced(Function):
    """The reduction of all processes' tensors; so is its gradient, of theirs."""

    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        result = tensor.detach().clone()
        collectives.all_reduce(result, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, None, AllReduced.apply(ctx.op, ctx.group, gradient.contiguous())


class AllGathered(Function):
    """All processes' tensors; a tensor's gradient is the sum of what they have for it."""

    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        results = [empty_like(tensor) for _ in range(get_world_size(group))]
        collectives.all_gather(results, tensor.detach().contiguous(), group)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        parts = [each.contiguous() for each in gradients]
        return None, ReduceScattered.apply(ReduceOp.SUM, ctx.group, *parts)


class ReduceScattered(Function):
    """The reduction of what the processes have for this one; gradients are gathered from all."""

    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, *parts: Tensor) -> Tensor:
        ctx.group = group
        result = empty_like(parts[0])
        collectives.reduce_scatter(
            result, [part.detach().contiguous() for part in parts], op, group
        )
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return None, None, *AllGathered.apply(ctx.group, gradient.contiguous())


class AllExchanged(Function):
    """From each process what it has for this one; gradients go back the same way."""

    @staticmethod
    def forward(ctx: Any, group: Any, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.count = group, count
        results = [empty_like(like) for like in tensors[:count]]
        exchange_all(results, [each.detach().contiguous() for each in tensors[count:]], group)
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        parts = [each.contiguous() for each in gradients]
        back = AllExchanged.apply(ctx.group, ctx.count, *parts, *parts)
        return None, None, *[None] * ctx.count, *back


class BroadcastFrom(Function):
    """One process' tensor; its gradient there is the sum of all."""

    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        result = tensor.detach().clone()
        collectives.broadcast(result, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        total = gradient.detach().clone()
        collectives.all_reduce(total, ReduceOp.SUM, ctx.group)
        return None, None, total if get_rank() == ctx.src else zeros_like(total)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The reduction of all processes' tensors, as a new one."""
    return AllReduced.apply(op, group, tensor)


def all_gather(tensor: Tensor, group: Any = None) -> Any:
    """All processes' tensors, of one shape, in the order of their ranks."""
    return AllGathered.apply(group, tensor)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Any:
    """The reduction of the tensors that the processes' lists have for this one, of the shape of
    `output`, which is not written."""
    return ReduceScattered.apply(op, group, *input_list)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> Any:
    """From each process the tensor that its list has for this one, of the shapes of
    `output_tensor_list`, which are not written. Gradients need tensors of one shape."""
    return AllExchanged.apply(group, len(output_tensor_list), *output_tensor_list,
                              *input_tensor_list)  # fmt: skip


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Any:
    """The tensor of process `src`, as a new one."""
    return BroadcastFrom.apply(src, group, tensor)

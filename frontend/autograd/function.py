"""Custom functions with a gradient rule of their own: `Function`.

`forward` runs without recording; one node is left on the tape whose rule is `backward`. In a trace
both run as they do eagerly, so their ops go into the graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from frontend.engine.eager.dispatch import filled_like
from frontend.engine.eager.gradients.backward import of_others
from frontend.engine.eager.promotion import casted
from frontend.engine.eager.tape import FREED, Saves, record
from frontend.engine.tensors.autograd_members import AutogradMembers
from frontend.engine.tensors.state import STATE, check_custom_gradient, no_grad
from frontend.engine.tensors.tensor import Tensor, make
from frontend.functions.reduce import sum
from frontend.functions.shape import expand, reshape
from graphc.errors import GraphError, TraceError
from graphc.ir.builder import user_location
from graphc.ir.types import TensorType


class FunctionCtx:
    """What `forward` and `backward` share: saved tensors, and how gradients are wanted."""

    needs_input_grad: tuple[bool, ...] = ()
    _sweep: tuple[tuple[bool, ...] | None, bool] = (None, False)

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()
        self._dirty: tuple[Tensor, ...] = ()
        self._undifferentiable: set[int] = set()
        self._materialize = True
        self._freed = False

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep operands or results for `backward`, which finds them in `saved_tensors`. One that is
        changed in place before then is an error. Raises TypeError for anything but a tensor or
        None."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(
                    "save_for_backward can only save variables, but argument is of type "
                    f"{type(tensor).__name__}"
                )
        self._saved = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Accepted for PyTorch's sake: there is no forward mode."""

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Name operands that `forward` changed in place; it must return them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Name results that take no gradient."""
        self._undifferentiable = {id(tensor) for tensor in tensors}

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros (the default) or None for results without a gradient."""
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept. Raises RuntimeError once it was freed or was changed."""
        if self._freed:
            raise GraphError(FREED, location=user_location())
        return tuple(item.unpacked() if type(item) is _Saved else item for item in self._saved)


class _Saved:
    """A saved tensor with the version it had. A result is kept by its value: the tensor itself
    would be a reference cycle through its node."""

    def __init__(self, tensor: Tensor, name: str):
        self.tensor: Tensor | None = tensor
        self.name = name
        self.counter = tensor._counter
        self.version = tensor._counter[0]
        self.value: Any = None
        self.type = tensor.tensor_type
        self.edge: Any = None
        self.packed: Any = None
        self.unpack: Any = None
        if STATE.saved_hooks is not None and STATE.mode is None:
            pack, self.unpack = STATE.saved_hooks
            self.packed = pack(tensor.detach())
            self.edge = tensor._edge or ((tensor, 0) if tensor._requires_grad else None)
            self.tensor = None

    def of_result(self, edge: Any) -> None:
        if self.tensor is None:
            return
        self.value, self.edge, self.tensor = self.tensor._value, edge, None

    def unpacked(self) -> Tensor:
        if self.unpack is not None:
            return self._from_hook()
        if self.counter[0] != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an "
                f"inplace operation: [{self.type}], saved by {self.name}, is at version "
                f"{self.counter[0]}; expected version {self.version} instead."
            )
        if self.tensor is not None:
            return self.tensor
        tensor = make(self.value, self.type)
        tensor._counter = self.counter
        if self.edge is not None and self.type.dtype.is_float:
            tensor._edge, tensor._requires_grad = self.edge, True
        return tensor

    def _from_hook(self) -> Tensor:
        value = self.unpack(self.packed)._value
        tensor = make(value, self.type)
        if self.edge is not None:
            tensor._edge = None if isinstance(self.edge[0], Tensor) else self.edge
            tensor._requires_grad = True
        return tensor


class _Rule:
    """The op of a custom function's tape node."""

    def __init__(self, function: type[Function], ctx: FunctionCtx, positions: Sequence[int],
                 count: int):  # fmt: skip
        self.name = function.__name__
        self.node_name = f"{function.__name__}Backward"
        self.function = function
        self.ctx = ctx
        self.positions = positions  # of the tensors among the arguments of forward
        self.count = count
        self.types: tuple[TensorType, ...] = ()
        self.result_types: tuple[TensorType, ...] = ()
        # Of the sweep under way: which operands lead to what it asks for (None: it goes to all
        # leaves), and whether another is to come.
        self.sweep: tuple[tuple[bool, ...] | None, bool] = (None, False)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self.ctx.saved_tensors

    def release(self) -> bool:
        """Forget the saved tensors; whether there were any."""
        had = bool(self.ctx._saved)
        self.ctx._saved = ()
        self.ctx._freed = had
        return had

    def vjp(self, gradients: Any, outputs: Any, *inputs: Any) -> tuple[Any, ...]:
        cotangents = gradients if isinstance(gradients, tuple) else (gradients,)
        if self.ctx._materialize:
            pairs = zip(cotangents, self.result_types)
            cotangents = tuple(filled_like(0, type) if g is None else g for g, type in pairs)
        self.ctx._sweep = self.sweep
        returned = self.function.backward(self.ctx, *cotangents)
        results = list(returned) if isinstance(returned, tuple | list) else [returned]
        while len(results) > self.count and results[-1] is None:
            results.pop()
        if len(results) != self.count:
            raise RuntimeError(
                f"function {self.node_name} returned an incorrect number of gradients (expected "
                f"{self.count}, got {len(results)})"
            )
        return tuple(
            self._fitted(results[position], type, position)
            for position, type in zip(self.positions, self.types)
        )

    def _fitted(self, gradient: Any, type: TensorType, position: int) -> Any:
        """A gradient in the type of its operand, as PyTorch makes it fit."""
        if gradient is None or not type.dtype.is_float:
            return None
        if not isinstance(gradient, Tensor):
            raise TypeError(
                f"function {self.node_name} returned a {gradient.__class__.__name__} as gradient "
                f"{position}; a Tensor or None is expected"
            )
        if not self.ctx.needs_input_grad[position]:
            return None  # dropped, whatever its shape
        shape, wanted = gradient.tensor_type.shape, type.shape
        if shape != wanted:
            if _expands(wanted, shape):
                gradient = _summed(gradient, wanted)
            elif _expands(shape, wanted):
                gradient = expand(gradient, wanted)
            else:
                raise RuntimeError(
                    f"Function {self.node_name} returned an invalid gradient at index {position} - "
                    f"got {list(shape)} but expected shape compatible with {list(wanted)}"
                )
        return of_others(casted(gradient, type.dtype))


def _expands(small: tuple[int, ...], big: tuple[int, ...]) -> bool:
    tail = big[len(big) - len(small) :] if len(small) <= len(big) else ()
    return len(tail) == len(small) and all(s in (1, b) for s, b in zip(small, tail))


def _summed(gradient: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`gradient` summed over the dimensions that were broadcast from `shape`."""
    lead = gradient.dim() - len(shape)
    wide = gradient.tensor_type.shape[lead:]
    axes = tuple(range(lead)) + tuple(
        lead + axis for axis, (size, big) in enumerate(zip(shape, wide)) if size != big
    )
    return reshape(sum(gradient, axes), *shape)


class Function:
    """A differentiable function with its own gradient. A subclass defines the static methods
    `forward(ctx, *args)` (or `forward(*args)` and `setup_context(ctx, inputs, output)`) and
    `backward(ctx, *grad_outputs)`, which returns one gradient or None per argument of forward;
    `Sub.apply(*args)` runs it.
    """

    generate_vmap_rule = False

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run `forward` and record it. Raises what forward raises, with nothing recorded;
        TraceError in the body of a traced loop or branch, where gradients are derived."""
        if STATE.grad_enabled is None:
            raise TraceError(
                f"{cls.__name__}: a custom Function in the body of a traced loop or branch, which "
                "is differentiated as a graph",
                hint="call it outside, or under no_grad()",
                location=user_location(),
            )
        tensors = [(i, x) for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple(isinstance(x, Tensor) and x.requires_grad for x in args)
        check_custom_gradient(x for _, x in tensors)
        with no_grad():
            if cls.setup_context is Function.setup_context:
                result = cls.forward(ctx, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
        single = not isinstance(result, tuple)
        results = (result,) if single else result
        if STATE.grad_enabled and any(ctx.needs_input_grad):
            results = _recorded(cls, ctx, tensors, len(args), results)
        return results[0] if single else results


def _over_the_same(x: Tensor) -> Tensor:
    """Another tensor over the memory of `x`, off its tape."""
    result = make(x._value, x.tensor_type)
    if STATE.mode is None:
        result._counter = x._counter
    return result


def _recorded(
    cls: type[Function], ctx: FunctionCtx, tensors: list[tuple[int, Tensor]], count: int,
    results: tuple[Any, ...],
) -> tuple[Any, ...]:  # fmt: skip
    """The results with one node on the tape; those that are operands stand as views of them."""
    rule = _Rule(cls, ctx, [i for i, _ in tensors], count)
    operands = tuple(x for _, x in tensors)
    dirty = {id(x) for x in ctx._dirty}
    for x in ctx._dirty:
        if x.requires_grad and x.is_leaf:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation."
            )
    known = {id(x) for x in operands}
    shown = tuple(
        _over_the_same(x) if isinstance(x, Tensor) and id(x) in known and id(x) not in dirty else x
        for x in results
    )
    outputs = [x for x in shown if isinstance(x, Tensor)]
    taking = [x for x in outputs if id(x) not in ctx._undifferentiable]
    taking = [x for x in taking if x.tensor_type.dtype.is_float]
    rule.types = tuple(x.tensor_type for x in operands)
    rule.result_types = tuple(x.tensor_type for x in outputs)
    ctx._saved = tuple(
        _Saved(x, rule.node_name) if isinstance(x, Tensor) else x for x in ctx._saved
    )
    if taking:
        history = [(x._edge, x._requires_grad) for x in outputs]
        saves = Saves(rule.types, rule.result_types, ((), ()))
        node = record(rule, {}, operands, tuple(outputs), saves)
        for x, (edge, requires_grad) in zip(outputs, history):
            if not any(x is y for y in taking):
                x._edge, x._requires_grad = edge, requires_grad
        for saved in ctx._saved:
            for index, x in enumerate(outputs):
                if type(saved) is _Saved and saved.tensor is x:
                    saved.of_result((node, index))
    return shown


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """For a `backward` that is not to be differentiated again: a second derivative is an error."""

    @functools.wraps(function)
    def wrapped(ctx: Any, *gradients: Any) -> Any:
        with no_grad():
            returned = function(ctx, *gradients)
        again = STATE.grad_enabled and any(
            isinstance(g, AutogradMembers) and g.requires_grad for g in gradients
        )
        if not again:
            return returned
        results = returned if isinstance(returned, tuple) else (returned,)
        blocked = tuple(_Once.apply(g, *gradients) if isinstance(g, Tensor) else g for g in results)
        return blocked if isinstance(returned, tuple) else blocked[0]

    return wrapped


class _Once(Function):
    """The identity on its first argument; differentiating it is an error."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, *gradients: Tensor) -> Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )


class InplaceFunction(Function):
    """Kept for scripts that derive from it."""

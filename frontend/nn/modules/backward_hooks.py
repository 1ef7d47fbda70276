"""Full backward hooks: an identity on the tape around the inputs of a module and one around its
outputs. Gradients pass the second first; both show them to the hooks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from frontend.engine.eager.dispatch import filled_like
from frontend.engine.eager.tape import Saves, record
from frontend.engine.tensors.state import STATE, check_custom_gradient
from frontend.engine.tensors.tensor import Tensor, make
from frontend.engine.tensors.views import View
from graphc.errors import ShapeError
from graphc.ir.types import TensorType


def run_hook(hook: Callable[..., Any], *args: Any) -> Any:
    """`hook(*args)`, a hook that runs around forward."""
    return hook(*args) if STATE.mode is None else STATE.mode.run_hook(hook, args)


class HooksIdentity:
    """The op of such a node."""

    name = "backward_hook"
    node_name = "BackwardHookFunctionBackward"

    def __init__(self, types: tuple[TensorType, ...]):
        self.types = types

    def vjp(self, gradients: Any, outputs: Any, *inputs: Any) -> tuple[Any, ...]:
        return self.filled(gradients if isinstance(gradients, tuple) else (gradients,))

    def filled(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients, zeros where there is none."""
        return tuple(
            filled_like(0, type) if g is None else g for g, type in zip(gradients, self.types)
        )


class _Shown(View):
    """The view an identity makes. Changing it in place would go past the hook."""

    def check_writable(self, recording: bool) -> None:
        raise RuntimeError(
            "Output of BackwardHookFunction is a view and is being modified inplace. The view was "
            "made for the backward hooks of a Module, and the change would override them. You can "
            "clone() the tensor first."
        )


def _alias(tensor: Tensor) -> Tensor:
    """Another tensor over the same value and version, off the tape."""
    result = make(tensor._value, tensor.tensor_type)
    if STATE.mode is not None:
        STATE.mode.show(result, View(tensor, None, {}, tensor._counter[0], True))
    result._counter = tensor._counter
    result._view = _Shown(tensor, None, {}, tensor._counter[0], None)
    return result


def _positions(values: Sequence[Any]) -> list[int]:
    return [i for i, value in enumerate(values) if isinstance(value, Tensor)]


def _around(values: Any, positions: list[int], hook: Callable[..., Any]) -> Any:
    """A tuple with the tensors at these positions behind an identity node, whose gradients, zeros
    for missing ones, `hook(gradients, filled)` sees."""
    tensors = tuple(values[i] for i in positions)
    check_custom_gradient(tensors)
    # Asking brings the history of views up to date, which the node takes as it is.
    requiring = [tensor.requires_grad for tensor in tensors]
    types = tuple(tensor.tensor_type for tensor in tensors)
    results = tuple(map(_alias, tensors))
    op = HooksIdentity(types)
    node = record(op, {}, tensors, results, Saves(types, types, ((), ())))
    # The hook must not know the node: that would be a reference cycle.
    node.register_hook(lambda _, gradients: hook(gradients, op.filled(gradients)))
    for result, requires_grad in zip(results, requiring):
        if not requires_grad:
            result._edge, result._requires_grad = None, False
    items = list(values)
    for position, result in zip(positions, results):
        items[position] = result
    return type(values)(*items) if hasattr(values, "_fields") else tuple(items)


def _spread(gradients: Sequence[Any], positions: list[int], count: int) -> tuple[Any, ...]:
    """The gradients of the tensors among `count` values; None for what is no tensor."""
    placed: list[Any] = [None] * count
    for position, gradient in zip(positions, gradients):
        placed[position] = gradient
    return tuple(placed)


class BackwardHook:
    """The backward hooks of one call of a module: `hooks(module, grad_input, grad_output)` and
    `pre_hooks(module, grad_output)`."""

    def __init__(
        self, module: Any, hooks: list[Callable[..., Any]], pre_hooks: list[Callable[..., Any]]
    ):
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.inputs = 0  # how many arguments the module got
        self.input_positions: list[int] | None = None  # of tensors, where one requires grad
        self.outputs = 0
        self.output_positions: list[int] = []

    # -- forward -----------------------------------------------------------------------------

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments behind an identity; as they are where none requires a gradient."""
        self.inputs = len(args)
        positions = _positions(args)
        if not self._is_recorded(args, positions):
            return args
        self.input_positions = positions
        return _around(args, positions, self._at_inputs)

    def setup_output_hook(self, result: Any) -> Any:
        """The result, a tensor or a tuple, behind an identity; as it is where nothing in it
        requires a gradient."""
        values = result if isinstance(result, tuple) else (result,)
        positions = _positions(values)
        if not self._is_recorded(values, positions):
            return result
        self.outputs = len(values)
        self.output_positions = positions
        wrapped = _around(values, positions, self._at_outputs)
        return wrapped if isinstance(result, tuple) else wrapped[0]

    @staticmethod
    def _is_recorded(values: Any, positions: list[int]) -> bool:
        return bool(STATE.grad_enabled) and any(values[i].requires_grad for i in positions)

    # -- backward ----------------------------------------------------------------------------

    def _at_outputs(self, gradients: Sequence[Any], filled: Any) -> tuple[Any, ...]:
        """The gradients of the results, after the pre-hooks. Where no input takes a gradient this
        is the last chance for the other hooks."""
        current = _spread(gradients, self.output_positions, self.outputs)
        for hook in self.pre_hooks:
            returned = run_hook(hook, self.module, current)
            if returned is not None:
                current = _replaced(hook, current, returned, "pre hook", "grad_output")
        self.grad_outputs = current
        if self.input_positions is None:
            self._run_without_inputs()
        return tuple(current[i] for i in self.output_positions)

    def _run_without_inputs(self) -> None:
        if self.hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module "
                "outputs since no inputs require gradients.",
                stacklevel=2,
            )
        for hook in self.hooks:
            returned = run_hook(hook, self.module, (None,) * self.inputs, self.grad_outputs)
            empty = isinstance(returned, tuple) and all(item is None for item in returned)
            if returned is not None and not empty:
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )
        self.grad_outputs = None

    def _at_inputs(self, gradients: Any, filled: Sequence[Any]) -> tuple[Any, ...] | None:
        """The gradients of the arguments, after the hooks. Of a call whose results took no part
        there is nothing to show."""
        if self.grad_outputs is None:
            return None
        assert self.input_positions is not None
        current = _spread(filled, self.input_positions, self.inputs)
        for hook in self.hooks:
            returned = run_hook(hook, self.module, current, self.grad_outputs)
            if returned is not None:
                current = _replaced(hook, current, returned, "hook", "grad_input")
        self.grad_outputs = None
        return tuple(current[i] for i in self.input_positions)


def _replaced(
    hook: Any, current: tuple[Any, ...], returned: Any, kind: str, what: str
) -> tuple[Any, ...]:
    """What a hook returned, checked: as many as before, and of the same types."""
    replacements = (returned,) if isinstance(returned, Tensor) else returned
    if len(replacements) != len(current):
        raise RuntimeError(
            f"Backward {kind} returned an invalid number of {what}, got {len(replacements)}, but "
            f"expected {len(current)}"
        )
    name = getattr(hook, "__name__", type(hook).__name__)
    for before, after in zip(current, replacements):
        if before is None or after is None:
            continue
        if not isinstance(after, Tensor):
            raise TypeError(f"expected Tensor, but hook {name!r} returned {type(after).__name__!r}")
        if after.tensor_type != before.tensor_type:
            raise ShapeError(
                f"hook {name!r} has changed the type of a gradient: {before.tensor_type} became "
                f"{after.tensor_type}"
            )
    return tuple(replacements)


# -- the old kind --------------------------------------------------------------------------------


def run_old_hook(hook: Any, module: Any, current: Any, gradients: Any) -> tuple[Any, ...] | None:
    """`hook(module, grad_input, grad_output)` on a node: what it returned, checked."""
    returned = run_hook(hook, module, current, gradients)
    return None if returned is None else _replaced(hook, current, returned, "hook", "grad_input")


_DEPRECATED = (
    "Using {} deprecated and will be removed in future versions. This hook will be missing some "
    "{}. Please use register_full_backward_hook to get the documented behavior."
)


def warn_of_old_hooks(args: Any, result: Any, node: Any) -> None:
    """Say what backward hooks of the old kind on this node do not see, as PyTorch does."""
    shortcoming = _shortcoming(args, result, node)
    if shortcoming is not None:
        warnings.warn(_DEPRECATED.format(*shortcoming), FutureWarning, stacklevel=7)


def _shortcoming(args: Any, result: Any, node: Any) -> tuple[str, str] | None:
    results = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(x, Tensor) for x in results):
        what = "that does not return a single Tensor or a tuple of Tensors"
        return f"non-full backward hooks on a Module {what} is", "of the grad_output"
    inputs = args if isinstance(args, tuple) else (args,)
    if not all(isinstance(x, Tensor) for x in inputs):
        what = "that does not take as input a single Tensor or a tuple of Tensors"
        return f"non-full backward hooks on a Module {what} is", "of the grad_input"
    if any(x.grad_fn is not node for x in results):
        what = "when outputs are generated by different autograd Nodes"
        return f"a non-full backward hook {what} is", "grad_output"
    before = {id(x.grad_fn) for x in inputs}
    if before != {id(following) for following, _ in node.next_functions}:
        what = "when the forward contains multiple autograd Nodes"
        return f"a non-full backward hook {what} is", "grad_input"
    return None

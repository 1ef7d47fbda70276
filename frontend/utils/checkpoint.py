"""`torch.utils.checkpoint`: a function whose inner values are computed again in backward instead of
being kept.

Eagerly nothing of what the function's operations save is kept: the first value backward asks for
runs the function again, from the same arguments, random state and autocast. In a compiled function
it is called plainly: there the compiler decides what is kept (`compile(..., saved_bytes=…)`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any

from frontend.autograd.function import Function
from frontend.autograd.graph import saved_tensors_hooks
from frontend.engine.eager.gradients.grad import backward
from frontend.engine.tensors.state import (
    STATE,
    enable_grad,
    modules_going_to,
    no_grad,
    swap_autocast,
    swap_saved_hooks,
)
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.random import fork_rng, get_rng_state, set_rng_state
from frontend.namespace.stubs import stubs
from frontend.nn.modules.container import Sequential

__all__ = [
    "CheckpointError", "CheckpointPolicy", "checkpoint",
    "checkpoint_sequential", "get_device_states",
    "noop_context_fn", "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip
globals().update(stubs("utils.checkpoint"))


class CheckpointPolicy(Enum):
    """What a policy says of an operation; contexts that ask one are not here."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


def noop_context_fn() -> tuple[Any, Any]:
    """Contexts of forward and of the second run that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def _not_compiled_below() -> contextlib.AbstractContextManager[None]:
    """Where a function around it runs eagerly, Modules inside do too: one that is compiled from its
    second call on would save other values in the second run."""
    return modules_going_to(None)


class _Replay:
    """What a second run needs to be like the first: random state, autocast, and no recording hooks
    of whoever called backward."""

    def __init__(self, preserve_rng_state: bool):
        self.autocast = STATE.autocast
        self.random = get_rng_state() if preserve_rng_state else None

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        before, hooks = swap_autocast(self.autocast), swap_saved_hooks(None)
        try:
            with enable_grad(), fork_rng(enabled=self.random is not None):
                if self.random is not None:
                    set_rng_state(self.random)
                yield
        finally:
            swap_autocast(before)
            swap_saved_hooks(hooks)


def _detached(args: Sequence[Any]) -> list[Any]:
    """Tensors among the arguments as leaves of their own, gradients wanted where they were."""
    copies = []
    for each in args:
        if isinstance(each, Tensor):
            copy = each.detach()
            copy.requires_grad_(each.requires_grad)
            copies.append(copy)
        else:
            copies.append(each)
    return copies


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The devices of tensors among the arguments, other than the CPU, and the states of their
    generators: none."""
    return [], []


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Nothing to set, for no devices. Raises ValueError for any."""
    if len(devices) or len(states):
        raise ValueError("set_device_states(): there are no devices with states of their own")


class CheckpointFunction(Function):
    """The reentrant way: one node whose backward runs the function again and goes back through
    that; what the function reads besides its arguments gets its gradients there."""

    @staticmethod
    def forward(ctx: Any, function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        ctx.function = function
        ctx.replay = _Replay(preserve_rng_state)
        ctx.places = [i for i, each in enumerate(args) if isinstance(each, Tensor)]
        ctx.args = [None if isinstance(each, Tensor) else each for each in args]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        with no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        args = list(ctx.args)
        for place, tensor in zip(ctx.places, ctx.saved_tensors):
            args[place] = tensor
        args = _detached(args)
        with ctx.replay():
            results = ctx.function(*args)
        results = (results,) if isinstance(results, Tensor) else results
        pairs = [
            (result, gradient)
            for result, gradient in zip(results, gradients)
            if isinstance(result, Tensor) and result.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        backward([result for result, _ in pairs], [gradient for _, gradient in pairs])
        wanted = [each.grad if isinstance(each, Tensor) else None for each in args]
        return (None, None, *wanted)


class CheckpointError(RuntimeError):
    """The second run saved other values than the first."""


class _Frame:
    """The values one run of a function saves, by their order: types in the first run, tensors in
    the second."""

    def __init__(self, rerun: Callable[[], Any], replay: _Replay):
        self.rerun = rerun
        self.replay = replay
        self.types: list[Any] = []
        self.values: dict[int, Tensor] = {}

    def pack(self, tensor: Tensor) -> int:
        self.types.append(tensor.tensor_type)
        return len(self.types) - 1

    def unpack(self, place: int) -> Tensor:
        if place not in self.values:
            self._compute()
        return self.values.pop(place)

    def _compute(self) -> None:
        again: list[Tensor] = []

        def keep(tensor: Tensor) -> Any:
            again.append(tensor)
            return tensor

        with self.replay(), saved_tensors_hooks(keep, lambda tensor: tensor), _not_compiled_below():
            self.rerun()
        types = [tensor.tensor_type for tensor in again]
        if types != self.types:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values have different metadata than during the "
                f"forward pass: {len(self.types)} values were saved, {len(types)} when computed "
                "again, or of other shapes. The function has to compute the same each time."
            )
        self.values = dict(enumerate(again))


def checkpoint(
    function: Callable[..., Any], *args: Any, use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn, determinism_check: str = "default",
    debug: bool = False, early_stop: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """`function(*args, **kwargs)`, whose inner values are not kept.

    With `use_reentrant=True` backward through it is a backward of its own: only `.backward()` goes
    through, and an argument has to require a gradient. `preserve_rng_state=False` (True otherwise)
    draws new random numbers the second time. Raises ValueError for keywords that the reentrant way
    does not take, CheckpointError where the second run differs."""
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant and (kwargs or context_fn is not noop_context_fn):
        named = ",".join(kwargs) or "context_fn"
        raise ValueError(f"Unexpected keyword arguments: {named}")
    if STATE.mode is not None or STATE.grad_enabled is not True:
        return function(*args, **kwargs)
    if use_reentrant:
        return CheckpointFunction.apply(function, preserve, *args)
    first, second = context_fn()

    def rerun() -> Any:
        with second:
            return function(*args, **kwargs)

    frame = _Frame(rerun, _Replay(preserve))
    with saved_tensors_hooks(frame.pack, frame.unpack), first, _not_compiled_below():
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """A Sequential, or list of functions, in `segments` parts that are checkpointed but for the
    last."""
    steps = (
        list(functions._modules.values()) if isinstance(functions, Sequential) else list(functions)
    )
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")

    def run(start: int, end: int) -> Callable[[Any], Any]:
        def forward(value: Any) -> Any:
            for step in steps[start:end]:
                value = step(value)
            return value

        return forward

    size = len(steps) // segments
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(
            run(start, start + size), input, use_reentrant=use_reentrant,
            preserve_rng_state=preserve,
        )  # fmt: skip
    return run(size * (segments - 1), len(steps))(input)


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Nothing to switch: the second run always goes to the end."""
    yield

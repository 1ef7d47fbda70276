"""`Optimizer`: parameter groups, their options, and state per parameter.

A `step` is plain tensor code with in-place operations, outside autograd: eagerly it computes, in a
trace the same lines become part of the compiled step. Three rules make that work:

- State (momenta, step counts) is made of real tensors, also in a trace (`suspended`), so the
  trace captures it as it captures parameters, and the second call finds what the first one left.
- No Python decision depends on a value. Powers of betas are computed from 0-d step counts in f64.
- Options are read through `read` (see `groups.py`): numbers that a schedule may change are inputs
  of the compiled step, everything else is frozen into it and guarded.

A subclass with an `_update` gets all of that. One with a `step` of its own, as PyTorch's users
write it, runs as it is; in a trace each option it reads is frozen, and a change traces again.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from types import SimpleNamespace
from typing import Any

from frontend.engine.outside.guard import Guard
from frontend.engine.tensors.dtypes import float32
from frontend.engine.tensors.epoch import HookRegistry, Listing, changed
from frontend.engine.tensors.hooks import RemovableHandle
from frontend.engine.tensors.state import STATE, enable_grad, no_grad, suspended, tracing
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import full, full_like
from frontend.optim import saving
from frontend.optim.groups import Held, ParameterGroup, States, optimizer_guard
from frontend.optim.options import EXECUTION, checked_parameters
from graphc.errors import TraceError
from graphc.ir.builder import user_location

Hooks = OrderedDict[int, Callable[..., Any]]
_GLOBAL_PRE: Hooks = OrderedDict()
_GLOBAL_POST: Hooks = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` before the step of every optimizer."""
    return RemovableHandle(_GLOBAL_PRE, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(optimizer, args, kwargs)` after the step of every optimizer."""
    return RemovableHandle(_GLOBAL_POST, hook)


def _hooked(step: Any) -> Any:
    """A `step` with the hooks of its optimizer around it."""

    @functools.wraps(step)
    def hooked(self: Any, *arguments: Any, **keywords: Any) -> Any:
        outermost: Any = getattr(type(self).step, "__wrapped__", None)
        # Called by the step of a subclass, or of a wrapper that never made itself an Optimizer.
        if outermost is not step or "_optimizer_step_pre_hooks" not in self.__dict__:
            return step(self, *arguments, **keywords)
        self._opt_called = True
        guard = self._guarded()
        for hook in [*_GLOBAL_PRE.values(), *self._optimizer_step_pre_hooks.values()]:
            replaced = hook(self, (self, *arguments), keywords)
            if replaced is None:
                continue
            if not (isinstance(replaced, tuple) and len(replaced) == 2):
                raise RuntimeError(
                    f"{hook!r} must return None or a tuple of (new_args, new_kwargs), but got "
                    f"{replaced}."
                )
            (_, *changed_arguments), keywords = replaced
            arguments = tuple(changed_arguments)
        mode = STATE.mode
        with nullcontext() if mode is None else mode.update():
            result = step(self, *arguments, **keywords)
        for hook in [*self._optimizer_step_post_hooks.values(), *_GLOBAL_POST.values()]:
            hook(self, (self, *arguments), keywords)
        if guard is not None:
            guard.renew()
        return result

    return hooked


class _Required:
    """In the defaults of an optimizer: every group has to say it."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer:
    """Base of the optimizers. `params` is an iterable of tensors, of (name, tensor) pairs, or of
    group dicts with a 'params' item; what a group does not say is taken from `defaults`. `state[p]`
    holds the state of p.

    Raises ValueError for no parameters, a non-leaf, one in two groups, or names for some only;
    TypeError for no tensors.
    """

    numbers: tuple[str, ...] = ("lr",)
    """Options that are inputs of a compiled step."""
    optional: tuple[str, ...] = ()
    """The same; where they are 0, a part of the step is left out."""
    shaped: frozenset[str] = frozenset()
    """Names of state that has the parameter's shape."""
    takes: str = "dense"
    """The gradients it takes: "dense", "sparse" or "both"."""
    _opt_called = False  # a step was taken (at least traced): schedulers want to know

    def __init_subclass__(cls, **keywords: Any):
        super().__init_subclass__(**keywords)
        if "step" in cls.__dict__:
            setattr(cls, "step", _hooked(cls.__dict__["step"]))  # noqa: B010 (mypy)

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]):
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {params.type()}"
            )
        self.defaults = defaults
        self._make_hooks()
        self.state: Any = States(Held)
        self.param_groups: list[Any] = Listing()
        members = list(params)
        if not members:
            raise ValueError("optimizer got an empty parameter list")
        for group in members if isinstance(members[0], dict) else [{"params": members}]:
            self.add_param_group(group)

    def _make_hooks(self) -> None:
        self._optimizer_step_pre_hooks: Hooks = HookRegistry()
        self._optimizer_step_post_hooks: Hooks = HookRegistry()
        self._optimizer_state_dict_pre_hooks: Hooks = OrderedDict()
        self._optimizer_state_dict_post_hooks: Hooks = OrderedDict()
        self._optimizer_load_state_dict_pre_hooks: Hooks = OrderedDict()
        self._optimizer_load_state_dict_post_hooks: Hooks = OrderedDict()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Optimise more parameters, with options of their own."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        _outside_trace("add_param_group()")
        params, names = checked_parameters(param_group["params"])
        group = {**param_group, "params": Listing(params)}
        if names is not None:
            group["param_names"] = names
        if self.param_groups and ("param_names" in group) != (
            "param_names" in self.param_groups[0]
        ):
            missing = "without" if "param_names" not in group else "with"
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{missing} names to the optimizer"
            )
        present = {id(p) for other in self.param_groups for p in other["params"]}
        if any(id(p) in present for p in params):
            raise ValueError("some parameters appear in more than one parameter group")
        for name, value in self.defaults.items():
            if value is required and name not in group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    + name
                )
            group.setdefault(name, value)
        self.param_groups.append(ParameterGroup(group))
        changed()

    def _patch_step_function(self) -> None:
        """Nothing to do: a class has hooks around its `step`."""

    # -- stepping ----------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients, or set them to zero in place."""
        self._guarded()
        for p in chain.from_iterable(group["params"] for group in self.param_groups):
            grad = None if set_to_none else p.grad
            if grad is None:
                p.grad = None
                continue
            if grad.requires_grad:
                p.grad = grad = grad.detach()
            with no_grad():
                grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient. `closure`, where given, computes the loss and
        the gradients first; its result is returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            members = [
                (group, [p for p in group["params"] if p.grad is not None])
                for group in self.param_groups
            ]
            for group, params in members:
                self._check_gradients(group, params)
            for group, params in members:
                if params:
                    self._update(group, params)
        return loss

    step = _hooked(step)

    def _update(self, group: ParameterGroup, params: list[Tensor]) -> None:
        """Update `params`, each with a gradient, by the options of `group`."""
        raise NotImplementedError(f"{type(self).__name__} does not define an update")

    def _check_gradients(self, group: ParameterGroup, params: list[Tensor]) -> None:
        """Raise RuntimeError, before anything is changed, for gradients of a layout it does not
        take."""
        for p in params:
            if p.grad.is_sparse:
                self._check_sparse(group)
            elif self.takes == "sparse":
                raise RuntimeError(
                    "SparseAdam does not support dense gradients, please consider Adam instead"
                )

    def _check_sparse(self, group: ParameterGroup) -> None:
        """Raise RuntimeError where a sparse gradient cannot be taken with the options of a
        group."""
        if self.takes == "dense":
            raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    def read(self, group: ParameterGroup) -> SimpleNamespace:
        """The options of a group: `numbers` as they are (in a trace as inputs), `optional` ones
        None where they are 0, the others frozen."""
        options = SimpleNamespace()
        for name in self.defaults:
            if name not in self.numbers and name not in self.optional:
                value = group.frozen(name) if name not in EXECUTION else None
            elif isinstance(dict.__getitem__(group, name), tuple | list):
                value = tuple(group.number(name, index) for index in range(2))
            else:
                value = group.number(name, optional=name in self.optional)
            setattr(options, name, value)
        return options

    def _guarded(self) -> Guard | None:
        """In a trace, the guard on parameters, state and hooks; it is refreshed after a step."""
        if STATE.mode is None:
            return None
        state = [self.state, *self.state.values()]
        guard: Guard = STATE.mode.guard((id(self), "members"), lambda: optimizer_guard(self), state)
        return guard

    def _gradient(self, options: SimpleNamespace, p: Tensor) -> Tensor:
        """The gradient to go down by: with `maximize` its opposite, plus weight_decay · p; weight
        decay that is decoupled makes p smaller instead. With it the update of p begins."""
        self._begin(p)
        g = -p.grad if options.maximize else p.grad
        if options.weight_decay is None:
            return g
        if not getattr(options, "decoupled_weight_decay", False):
            return g + p * options.weight_decay
        p.mul_(1 - options.lr * options.weight_decay)
        return g

    def _change(
        self, update: Any, options: SimpleNamespace, p: Tensor, held: list[Tensor],
        numbers: Sequence[Any], **flags: bool,
    ) -> None:  # fmt: skip
        """Run a fused `update` of p, of what is `held` for it and of its gradient, by `numbers`;
        weight decay and the direction of the gradient are part of it, by `decayed`. (What is held
        for a parameter changes everywhere: a sparse gradient is then taken as a dense one.)"""
        gradient = p.grad.to_dense() if p.grad.is_sparse else p.grad
        decay = options.weight_decay
        decoupled = decay is not None and getattr(options, "decoupled_weight_decay", False)
        if decay is not None:
            numbers = (*numbers, 1 - options.lr * decay if decoupled else decay)
        update(
            (p, *held, gradient), tuple(numbers), **flags, maximize=bool(options.maximize),
            decays=decay is not None, decoupled=bool(decoupled),
        )  # fmt: skip

    def _begin(self, p: Tensor) -> None:
        """What follows updates `p`: a trace notes so."""
        if STATE.mode is not None:
            STATE.mode.begin_parameter(p)

    def _buffer(self, p: Tensor, name: str, value: float = 0) -> Tensor:
        """The state `name` of p; `value` in p's shape where there is none yet."""
        state = self.state[p]
        if state.get(name) is None:
            with suspended():
                state[name] = full_like(p, value)
        buffer: Tensor = state[name]
        return buffer

    def _clocks(self, params: list[Tensor], start: Callable[[Tensor], float] | None = None
                ) -> list[tuple[Tensor, list[Tensor]]]:  # fmt: skip
        """The step counts of `params`, 0-d f32, each with the parameters that have it.

        Parameters that always step together share one count, so that what is computed from it is
        computed once. One that stays behind (no gradient this time) gets a count of its own first.
        """
        groups: dict[int, tuple[Tensor, list[Tensor]]] = {}
        fresh: dict[float, Tensor] = {}
        for p in params:
            state = self.state[p]
            if state.get("step") is None:
                count = start(p) if start is not None else 0.0
                with suspended():
                    if count not in fresh:
                        fresh[count] = full((), count, dtype=float32)
                    state["step"] = fresh[count]
            groups.setdefault(id(state["step"]), (state["step"], []))[1].append(p)
        stepping = {id(p) for p in params}
        for p, state in self.state.items():
            if id(state.get("step")) in groups and id(p) not in stepping:
                with suspended():
                    state["step"] = state["step"].clone()
        return list(groups.values())

    # -- saving ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """`{"state": {number: state of a parameter}, "param_groups": [options and numbers]}`:
        references, not copies. Parameters are numbered through the groups in order."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        packed = saving.packed(self)
        for hook in self._optimizer_state_dict_post_hooks.values():
            packed = _or(hook(self, packed), packed)
        return packed

    def _saved_state(self, held: Mapping[str, Any]) -> dict[str, Any]:
        """The state of a parameter as a state dict has it."""
        return dict(held)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take options and state (copied, in the parameters' dtypes) from `state_dict`.

        State already there is overwritten in place, so a compiled step goes on with it. Raises
        ValueError where groups or shapes do not match, before anything is changed.
        """
        _outside_trace("load_state_dict()")
        taken = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            taken = _or(hook(self, taken), taken)
        saving.load(self, taken)
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults, "state": self.state, "param_groups": self.param_groups,
        }  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hooks()

    # -- hooks -------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` before a step; it may return others to take instead."""
        return RemovableHandle(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(optimizer, args, kwargs)` after a step."""
        return RemovableHandle(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer)` before a state dict is made."""
        return _registered(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer, state_dict)` after one is made; it may return another."""
        return _registered(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer, state_dict)` before loading; it may return another."""
        return _registered(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(optimizer)` after loading."""
        return _registered(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def __repr__(self) -> str:
        groups = []
        for i, group in enumerate(self.param_groups):
            names = [name for name in sorted(group) if name != "params"]
            lines = [f"    {name}: {_text(group[name])}\n" for name in names]
            groups.append(f"Parameter Group {i}\n" + "".join(lines))
        return f"{type(self).__name__} (\n" + "\n".join(groups) + ")"


def decayed(
    p: Any, gradient: Any, by: Sequence[Any], *, maximize: bool, decays: bool, decoupled: bool
) -> tuple[Any, Any]:
    """A parameter and the gradient to go down by: with `maximize` its opposite, plus weight_decay
    · p; weight decay that is decoupled makes p smaller instead. `by` has the factor, if any."""
    gradient = -gradient if maximize else gradient
    if not decays:
        return p, gradient
    (factor,) = by
    return (p * factor, gradient) if decoupled else (p, gradient + p * factor)


def _or(new: Any, old: Any) -> Any:
    return old if new is None else new


def _text(value: Any) -> str:
    return f"{value.item() if isinstance(value, Tensor) and not value.dim() else value}"


def _registered(hooks: Hooks, hook: Callable[..., Any], prepend: bool) -> RemovableHandle:
    handle = RemovableHandle(hooks, hook)
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _outside_trace(what: str) -> None:
    if tracing():
        raise TraceError(
            f"{what} of an optimizer is called while tracing; compiled code would not repeat it",
            hint="call it outside",
            location=user_location(),
        )

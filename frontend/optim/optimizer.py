"""`Optimizer`: parameter groups, their options, and state per parameter.

A `step` is plain tensor code with in-place operations, outside autograd: eagerly it computes, in a
trace the same lines become part of the compiled step. Three rules make that work:

- State (momenta, step counts) is made of real tensors, also in a trace (`tracer.suspended`), so the
  trace captures it as it captures parameters, and the second call finds what the first one left.
- No Python decision depends on a value. Powers of betas are computed from 0-d step counts in f64.
- `lr` is read by `host_value`: a number, or in a trace an input read anew at each call. All other
  options are read by `option` and fixed into the compiled step; a change traces again.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from frontend import tracer
from frontend.creation import zeros, zeros_like
from frontend.dtypes import float32
from frontend.state import enable_grad, no_grad
from frontend.tensor import Tensor

Group = dict[str, Any]
option = tracer.note_mapping


class Optimizer:
    """Base of the optimizers. `params` is an iterable of tensors or of group dicts with a 'params'
    item; what a group does not say is taken from `defaults`. `state[p]` holds the state of p.

    Raises ValueError for no parameters, a non-leaf, or one in two groups; TypeError for no tensors.
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]):
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {params.type()}"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        given = list(params)
        if not given:
            raise ValueError("optimizer got an empty parameter list")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: Group) -> None:
        """Optimise more parameters, with options of their own."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        group["params"] = _checked(group["params"])
        present = {id(p) for other in self.param_groups for p in other["params"]}
        if any(id(p) in present for p in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        self.param_groups.append(group)

    # -- stepping ----------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients, or set them to zero in place."""
        for p in chain.from_iterable(group["params"] for group in self.param_groups):
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                with no_grad():
                    p.grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient. `closure`, where given, computes the loss and
        the gradients first; its result is returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                params = [p for p in group["params"] if p.grad is not None]
                if params:
                    self._update(group, params)
        return loss

    def _update(self, group: Group, params: list[Tensor]) -> None:
        """Update `params`, each with a gradient, by the options of `group`."""
        raise NotImplementedError(f"{type(self).__name__} does not define an update")

    def _buffer(self, p: Tensor, name: str) -> Tensor:
        """The state `name` of p; zeros in p's shape where there is none yet."""
        state = self.state[p]
        if state.get(name) is None:
            with tracer.suspended():
                state[name] = zeros_like(p, requires_grad=False)
        return state[name]

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
                if count not in fresh:
                    with tracer.suspended():
                        fresh[count] = zeros((), dtype=float32) + count
                state["step"] = fresh[count]
            groups.setdefault(id(state["step"]), (state["step"], []))[1].append(p)
        stepping = {id(p) for p in params}
        for p, state in self.state.items():
            if id(state.get("step")) in groups and id(p) not in stepping:
                with tracer.suspended():
                    state["step"] = state["step"].clone()
        return list(groups.values())

    # -- saving ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """`{"state": {number: state of a parameter}, "param_groups": [options and numbers]}`:
        references, not copies. Parameters are numbered through the groups in order."""
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            options = {name: value for name, value in group.items() if name != "params"}
            groups.append({**options, "params": [numbers[id(p)] for p in group["params"]]})
        state = {numbers[id(p)]: dict(held) for p, held in self.state.items() if id(p) in numbers}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take options and state (copied, in the parameters' dtypes) from `state_dict`.

        State already there is overwritten in place, so a compiled step goes on with it. Raises
        ValueError where groups or shapes do not match, before anything is changed.
        """
        groups, saved = state_dict["param_groups"], state_dict["state"]
        if len(groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        for own, other in zip(self.param_groups, groups):
            if len(own["params"]) != len(other["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    "optimizer's group"
                )
        params: dict[Any, Tensor] = {}
        for own, other in zip(self.param_groups, groups):
            params.update(zip(other["params"], own["params"]))
        for number, p in params.items():
            _check_shapes(number, p, saved.get(number, {}))
        clocks: dict[tuple[int, float], Tensor] = {}
        for number, p in params.items():
            if number in saved:
                self._load(p, saved[number], clocks)
            else:
                self.state.pop(p, None)
        for own, other in zip(self.param_groups, groups):
            own.update({name: value for name, value in other.items() if name != "params"})

    def _load(
        self, p: Tensor, saved: Mapping[str, Any], clocks: dict[tuple[int, float], Tensor]
    ) -> None:
        """Put `saved` in place of the state of p."""
        own = self.state[p]
        for name in own.keys() - saved.keys():
            del own[name]
        for name, value in saved.items():
            present = own.get(name)
            if name == "step":
                own[name] = _loaded_clock(present, float(value), clocks)
            elif not isinstance(value, Tensor):
                own[name] = value
            elif isinstance(present, Tensor):
                with no_grad():
                    present.copy_(value)
            else:
                own[name] = value.detach().to(p.dtype).clone()

    def __repr__(self) -> str:
        lines = []
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return f"{type(self).__name__} (\n" + "\n".join(lines) + "\n)"


def _checked(params: Any) -> list[Tensor]:
    """The parameters of a group as a list of leaves."""
    if isinstance(params, Tensor):
        return _checked([params])
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of "
            "tensors in sets will change between runs. Please use a list instead."
        )
    checked = [item[1] if isinstance(item, tuple) else item for item in params]
    for p in checked:
        if not isinstance(p, Tensor):
            raise TypeError(
                f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}"
            )
        if not p.is_leaf:
            raise ValueError("can't optimize a non-leaf Tensor")
    if len({id(p) for p in checked}) != len(checked):
        warnings.warn(
            "optimizer contains a parameter group with duplicate parameters", stacklevel=4
        )
    return checked


def _loaded_clock(present: Any, count: float, clocks: dict[tuple[int, float], Tensor]) -> Tensor:
    """A step count that says `count`: the one in place, unless another parameter that shares it
    was loaded with a different count; parameters new to the optimizer share by count."""
    owner = id(present) if isinstance(present, Tensor) else 0
    if (owner, count) not in clocks:
        taken = any(other == owner for other, _ in clocks)
        clock = zeros((), dtype=float32) if not owner or taken else present
        with no_grad():
            clocks[owner, count] = clock.fill_(count)
    return clocks[owner, count]


def _check_shapes(number: Any, p: Tensor, saved: Mapping[str, Any]) -> None:
    for name, value in saved.items():
        if isinstance(value, Tensor) and name != "step" and value.shape != p.shape:
            raise ValueError(
                f"loaded state dict has {name} of shape {list(value.shape)} for parameter "
                f"{number} of shape {list(p.shape)}"
            )

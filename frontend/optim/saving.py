"""State dicts of optimizers: PyTorch's layout, loaded into the state that is there."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from frontend.engine.tensors.dtypes import float32
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import zeros

Clocks = dict[tuple[int, float], Tensor]


def packed(optimizer: Any) -> dict[str, Any]:
    """`{"state": {number: state of a parameter}, "param_groups": [options and numbers]}`:
    references, not copies. Parameters are numbered through the groups in order."""
    numbers: dict[int, int] = {}
    groups = []
    for group in optimizer.param_groups:
        for p in group["params"]:
            numbers.setdefault(id(p), len(numbers))
        options = {name: value for name, value in group.items() if name != "params"}
        groups.append({**options, "params": [numbers[id(p)] for p in group["params"]]})
    state = {
        (numbers[id(key)] if isinstance(key, Tensor) else key): optimizer._saved_state(held)
        for key, held in optimizer.state.items()
        if id(key) in numbers or not isinstance(key, Tensor)
    }
    return {"state": state, "param_groups": groups}


def load(optimizer: Any, saved: Mapping[str, Any]) -> None:
    """Put options and state of a state dict in place of the optimizer's own. Raises ValueError,
    KeyError before anything is changed."""
    groups, states = saved["param_groups"], saved["state"]
    if len(groups) != len(optimizer.param_groups):
        raise ValueError("loaded state dict has a different number of parameter groups")
    pairs = list(zip(optimizer.param_groups, groups))
    if any(len(own["params"]) != len(other["params"]) for own, other in pairs):
        raise ValueError(
            "loaded state dict contains a parameter group that doesn't match the size of "
            "optimizer's group"
        )
    params: dict[Any, Tensor] = {}
    for own, other in pairs:
        params.update(zip(other["params"], own["params"]))
    for number, p in params.items():
        _check_shapes(optimizer, number, p, states.get(number, {}))
    clocks: Clocks = {}
    for number, p in params.items():
        if number in states:
            _load_one(optimizer.state[p], p, states[number], clocks)
        else:
            optimizer.state.pop(p, None)
    for key in states.keys() - params.keys():
        optimizer.state[key] = deepcopy(states[key])
    for own, other in pairs:
        own.update({name: deepcopy(value) for name, value in other.items() if name != "params"})


def _load_one(own: Any, p: Tensor, saved: Mapping[str, Any], clocks: Clocks) -> None:
    """Put `saved` in place of the state of p: into the tensors that are there, where they fit, so
    that a compiled step goes on with it."""
    for name in own.keys() - saved.keys():
        del own[name]
    for name, value in saved.items():
        present = own.get(name)
        if name == "step":
            own[name] = _loaded_clock(present, float(value), clocks)
            continue
        own[name] = _loaded(present, value, p)


def _loaded(present: Any, value: Any, p: Tensor) -> Any:
    if not isinstance(value, Tensor):
        return deepcopy(value)
    with no_grad():
        # Floats take the parameter's dtype, as in PyTorch; masks and counts keep theirs.
        taken = value.detach().to(p.dtype) if p.is_floating_point() else value.detach()
        if isinstance(present, Tensor) and present.tensor_type == taken.tensor_type:
            return present.copy_(taken)
        return taken.clone()


def _loaded_clock(present: Any, count: float, clocks: Clocks) -> Tensor:
    """A step count that says `count`: the one in place, unless another parameter that shares it
    was loaded with a different count; parameters new to the optimizer share by count."""
    owner = id(present) if isinstance(present, Tensor) else 0
    if (owner, count) not in clocks:
        taken = any(other == owner for other, _ in clocks)
        clock = zeros((), dtype=float32) if not owner or taken else present
        with no_grad():
            clocks[owner, count] = clock.fill_(count)
    return clocks[owner, count]


def _check_shapes(optimizer: Any, number: Any, p: Tensor, saved: Mapping[str, Any]) -> None:
    for name in optimizer.shaped & saved.keys():
        value = saved[name]
        if isinstance(value, Tensor) and value.shape != p.shape:
            raise ValueError(
                f"loaded state dict has {name} of shape {list(value.shape)} for parameter "
                f"{number} of shape {list(p.shape)}"
            )

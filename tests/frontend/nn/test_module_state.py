"""State dicts: hooks, own loading code, extra state, assigning; a failed load changes nothing."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn


class Own(nn.Linear):
    """Loads its bias as the negative of what is stored, and counts."""

    loads = 0

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        self.loads += 1
        if prefix + "bias" in state_dict:
            state_dict[prefix + "bias"] = -state_dict[prefix + "bias"]
        super()._load_from_state_dict(state_dict, prefix, *rest)


class Extra(nn.Module):
    """State that is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []

    def get_extra_state(self) -> Any:
        return {"steps": list(self.steps)}

    def set_extra_state(self, state: Any) -> None:
        self.steps.extend(state["steps"])
        if len(self.steps) > 3:
            raise ValueError("too many steps")


def everything(module: Any) -> Any:
    """All a user can see of a module: values, objects, attributes."""
    seen = {}
    for path, part in module.named_modules():
        members = {**part._parameters, **part._buffers}
        values = {n: None if x is None else np.array(x.detach()) for n, x in members.items()}
        plain = {n: x for n, x in vars(part).items() if n not in ("_parameters", "_buffers")}
        seen[path] = ({n: id(x) for n, x in members.items()}, values, repr(plain))
    return seen


def same_as(before: Any, after: Any) -> None:
    assert before.keys() == after.keys()
    for path in before:
        ids, values, plain = before[path]
        assert (ids, plain) == (after[path][0], after[path][2])
        for name, value in values.items():
            np.testing.assert_array_equal(value, after[path][1][name])


def ones(module: Any) -> OrderedDict[str, Any]:
    state = module.state_dict().items()
    return OrderedDict((k, torch.ones_like(v) if hasattr(v, "shape") else v) for k, v in state)


def model() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), Own(2, 2), nn.Linear(2, 1))


def test_metadata_holds_versions() -> None:
    class Third(nn.Module):
        _version = 3

    net = nn.Sequential(Third(), nn.ModuleDict({"a": nn.ReLU()}))
    assert net.state_dict()._metadata == OrderedDict(
        {"": {"version": 1}, "0": {"version": 3}, "1": {"version": 1}, "1.a": {"version": 1}}
    )


def test_old_versions_are_told_to_the_module() -> None:
    seen: list[Any] = []

    class Net(nn.Module):
        _version = 2

        def _load_from_state_dict(self, state: Any, prefix: str, metadata: Any, *rest: Any) -> None:
            seen.append(metadata.get("version"))

    Net().load_state_dict(Net().state_dict())
    Net().load_state_dict({})
    assert seen == [2, None]


def test_positional_arguments_of_state_dict_are_deprecated() -> None:
    destination: Any = OrderedDict()
    with pytest.warns(FutureWarning, match="Positional args are being deprecated"):
        state = nn.Linear(1, 1).state_dict(destination, "p.")
    assert state is destination and list(destination) == ["p.weight", "p.bias"]


def test_a_module_loads_in_its_own_way() -> None:
    net = model()
    net.load_state_dict(ones(net))
    assert net[1].loads == 1 and (net[1].bias == -1).all() and (net[0].bias == 1).all()


# -- a failed load -------------------------------------------------------------------------------

Change = Any


def late_mismatch(state: Any) -> None:
    state["2.weight"] = torch.ones(3, 3)


def missing(state: Any) -> None:
    del state["2.bias"]


def unexpected(state: Any) -> None:
    state["2.other"] = torch.ones(1)


def no_tensor(state: Any) -> None:
    state["0.bias"] = "text"


def overwrite(module: Any, keys: Any) -> None:
    module.bias.data.fill_(9)


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("change", [late_mismatch, missing, unexpected, no_tensor])
@pytest.mark.parametrize("kind", ["plain", "own", "hooked"])
def test_a_failed_load_changes_nothing(kind: str, change: Change, assign: bool) -> None:
    net = model() if kind == "own" else nn.Sequential(*[nn.Linear(2, 2) for _ in range(3)])
    if kind == "hooked":
        net[0].register_load_state_dict_post_hook(overwrite)
        net[1].register_load_state_dict_pre_hook(lambda module, *_: setattr(module, "tag", 1))
    state, before = ones(net), everything(net)
    change(state)
    for attempt in range(2):
        with pytest.raises(RuntimeError, match="loading state_dict for Sequential"):
            net.load_state_dict(state, assign=assign)
        same_as(before, everything(net))
        del attempt
    net(torch.ones(1, 2))


def test_a_load_that_raises_in_user_code_changes_nothing() -> None:
    net = nn.Sequential(nn.Linear(1, 1), Extra())
    net[1].steps = [1, 2]
    state, before = ones(net), everything(net)
    with pytest.raises(ValueError, match="too many steps"):
        net.load_state_dict(state)
    same_as(before, everything(net))


def test_a_buffer_that_cannot_be_written_is_found_first() -> None:
    net = nn.Sequential(nn.Linear(1, 1), nn.Module())
    net[1].register_buffer("spread", torch.zeros(1).expand(3))
    before = everything(net)
    with pytest.raises(RuntimeError, match=r'named "1.spread".*share memory'):
        net.load_state_dict(ones(net))
    same_as(before, everything(net))


def test_replaced_and_added_members_are_taken_back() -> None:
    class Replacing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(2))
            self.register_buffer("seen", torch.zeros(1))

        def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
            self.weight = nn.Parameter(torch.ones(5))
            self.register_buffer("more", torch.ones(1), persistent=False)
            self.child = nn.ReLU()
            with torch.no_grad():
                self.seen.fill_(3.0)
            rest[-1].append("no")

    net = Replacing()
    before = everything(net)
    with pytest.raises(RuntimeError, match="no"):
        net.load_state_dict({})
    same_as(before, everything(net))
    assert not net._non_persistent_buffers_set and not hasattr(net, "child")


# -- hooks and extra state -----------------------------------------------------------------------


def test_hooks_of_state_dicts() -> None:
    net = nn.Sequential(nn.Linear(1, 1))
    events: list[str] = []
    net[0].register_state_dict_pre_hook(lambda module, prefix, keep: events.append(prefix))
    net.register_state_dict_post_hook(lambda module, state, *_: state.pop("0.bias"))
    with pytest.raises(RuntimeError, match="post-hook must return None"):
        net.state_dict()
    net._state_dict_hooks.clear()
    net._register_state_dict_hook(lambda module, state, *_: {"kept": len(state)})
    assert net.state_dict() == {"kept": 2} and events == ["0.", "0."]


def test_load_hooks() -> None:
    net = nn.Linear(1, 1)

    def renamed(module: Any, state: Any, prefix: str, *_: Any) -> None:
        assert module is net
        state[prefix + "weight"] = state.pop("w")

    net.register_load_state_dict_pre_hook(renamed)
    entries = {"w": torch.ones(1, 1), "bias": torch.ones(1)}
    net.load_state_dict(entries)
    assert net.weight.item() == 1 and "w" in entries
    net.register_load_state_dict_post_hook(lambda module, keys: keys.unexpected_keys)
    with pytest.raises(AssertionError, match="not expected to return new values"):
        net.load_state_dict(entries)


def test_hooks_with_their_module_go_with_copies() -> None:
    net = nn.Linear(1, 1)
    net.register_load_state_dict_pre_hook(remember_module)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        twin.load_state_dict(net.state_dict())
        assert twin.remembered is twin and not hasattr(net, "remembered")
        del twin.remembered


def remember_module(module: Any, *_: Any) -> None:
    object.__setattr__(module, "remembered", module)


def test_extra_state_is_saved_and_loaded() -> None:
    net = nn.Sequential(Extra(), nn.ReLU())
    net[0].steps = [4]
    state = net.state_dict()
    assert state["0._extra_state"] == {"steps": [4]}
    other = nn.Sequential(Extra(), nn.ReLU())
    other.load_state_dict(state)
    assert other[0].steps == [4]
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "0._extra_state"'):
        nn.Sequential(nn.ReLU()).load_state_dict(state)
    with pytest.raises(RuntimeError, match="defines no get_extra_state"):
        nn.Module().get_extra_state()


# -- assigning -----------------------------------------------------------------------------------


def test_assign_puts_the_given_tensors_in() -> None:
    net = nn.Linear(2, 1)
    net.weight.requires_grad_(False)
    net.register_buffer("seen", torch.zeros(1))
    weight = nn.Parameter(torch.ones(1, 2))
    state = {"weight": weight, "bias": torch.ones(1).double(), "seen": torch.ones(1)}
    net.load_state_dict(state, assign=True)
    assert net.weight is weight and not weight.requires_grad
    assert type(net.bias) is nn.Parameter and net.bias.dtype is torch.float64
    assert net.bias.requires_grad and net.seen is state["seen"]


def test_shared_members_stay_shared_when_loaded() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    state = net.state_dict()
    assert list(state) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    net.load_state_dict(ones(net))
    assert net[1].weight is net[0].weight and (net[0].weight == 1).all()

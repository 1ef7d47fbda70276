"""State dicts, building, walking and changing of Modules: the same script on both systems."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import pytest

import frontend


def nested(system: Any) -> Any:
    """Layers, shared ones too, buffers of both kinds, a scalar buffer, something None."""
    nn = system.nn

    class Inner(nn.Module):  # type: ignore[misc]
        _version = 3

        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(system.ones(2))
            self.register_buffer("seen", system.zeros(2))
            self.register_buffer("scratch", system.zeros(1), persistent=False)
            self.register_buffer("count", system.tensor(3.0))
            self.register_buffer("absent", None)
            self.register_parameter("bias", None)

    class Outer(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(OrderedDict(first=nn.Linear(2, 2), act=nn.ReLU()))
            self.inner = Inner()
            self.again = self.inner
            self.items = nn.ModuleList([nn.Linear(2, 1), nn.BatchNorm1d(1)])
            self.params = nn.ParameterDict({"b": system.ones(1), "a": system.zeros(1)})
            self.gone = None
            self.plain = [nn.Linear(1, 1)]

    return Outer()


def set_to(system: Any, module: Any, value: float) -> None:
    with system.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            tensor.fill_(value)


# -- saving --------------------------------------------------------------------------------------


def test_state_dicts_have_the_same_keys_order_and_metadata(peer: Any) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        net = nested(system)
        state = net.state_dict()
        log.append([list(state), dict(state._metadata), type(state)])
        log.append(list(net.state_dict(prefix="p.")))
        destination = OrderedDict(x=1)
        log.append(
            [net.inner.state_dict(destination=destination) is destination, list(destination)]
        )
        log.append([net.state_dict(keep_vars=True)["inner.scale"] is net.inner.scale])
        log.append([state["inner.scale"].requires_grad, state["inner.count"]])
        log.append(list(net.inner.state_dict(OrderedDict(), "q.", True)))
        return None

    peer.script(script)


def test_extra_state(peer: Any) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        class Extra(system.nn.Linear):  # type: ignore[misc]
            def get_extra_state(self) -> Any:
                return {"step": 3}

            def set_extra_state(self, state: Any) -> None:
                log.append(("set", state))

        net = system.nn.Sequential(Extra(2, 2))
        state = net.state_dict()
        log.append([list(state), state["0._extra_state"]])
        log.append(net.load_state_dict(state))
        del state["0._extra_state"]
        log.append(net.load_state_dict(state, strict=False).missing_keys)
        other = system.nn.Sequential(system.nn.Linear(2, 2))
        log.append(other.load_state_dict(net.state_dict(), strict=False).unexpected_keys)
        net.load_state_dict(state)

    _, error = peer.script(script)
    assert 'Missing key(s) in state_dict: "0._extra_state"' in str(error)


def test_state_dict_hooks(peer: Any) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        def note(name: str, count: int) -> Any:
            def hook(*arguments: Any) -> None:
                log.append((name, [type(x).__name__ for x in arguments[:count]], arguments[1:3]))

            return hook

        net = system.nn.Sequential(system.nn.Linear(1, 1))
        set_to(system, net, 2.0)
        for module in net.modules():
            module.register_state_dict_pre_hook(note("save before", 3))
            module._register_state_dict_hook(note("save after", 4))
            module.register_state_dict_post_hook(note("save after, public", 4))
            module._register_load_state_dict_pre_hook(note("load before", 7))
            module._register_load_state_dict_pre_hook(note("with module", 8), with_module=True)
            module.register_load_state_dict_pre_hook(note("load before, public", 8))
            module.register_load_state_dict_post_hook(note("load after", 1))
        net.load_state_dict(net.state_dict())
        return [len(net._state_dict_hooks), len(net._load_state_dict_pre_hooks)]

    peer.script(script)


def test_hooks_that_change_what_is_saved_and_loaded(peer: Any) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        net = system.nn.Linear(2, 1)
        set_to(system, net, 2.0)

        def renamed(module: Any, state: Any, prefix: str, *_: Any) -> None:
            state[prefix + "weight"] = state.pop(prefix + "w")

        with net._register_state_dict_hook(lambda module, state, prefix, _: {"only": prefix}):
            log.append(dict(net.state_dict()))
        with net.register_load_state_dict_pre_hook(renamed):
            log.append(net.load_state_dict({"w": system.ones(1, 2), "bias": system.zeros(1)}))
        with net.register_load_state_dict_post_hook(lambda _, keys: keys.missing_keys.clear()):
            log.append(net.load_state_dict({}))
        with net.register_load_state_dict_post_hook(lambda _, keys: keys.missing_keys.append("z")):
            try:
                net.load_state_dict(net.state_dict())
            except RuntimeError as error:
                log.append(str(error))
        with net.register_load_state_dict_post_hook(lambda *_: 3):
            net.load_state_dict(net.state_dict())
        return [net.weight]

    _, error = peer.script(script)
    assert type(error) is AssertionError


# -- loading -------------------------------------------------------------------------------------

BAD = {
    "missing": lambda s: {"layers.first.weight": s.ones(2, 2)},
    "unexpected": lambda s: {"x": 1, "layers.first.other": s.ones(1), "inner.seen.x": s.ones(1)},
    "sizes": lambda s: {"layers.first.weight": s.ones(3, 2), "inner.count": s.ones(2)},
    "types": lambda s: {"layers.first.weight": 3, "inner.seen": None, "params.a": "text"},
    "not persistent": lambda s: {"inner.scratch": s.ones(1), "inner.absent": s.ones(1)},
    "all at once": lambda s: {"layers.first.bias": s.ones(9), "other": 1, "inner.seen": 2},
}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("case", BAD)
def test_loading_what_does_not_fit(peer: Any, case: str, strict: bool) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        net = nested(system)
        set_to(system, net, 5.0)
        try:
            return net.load_state_dict(BAD[case](system), strict=strict)
        except RuntimeError as error:
            log.append(str(error).split("\n\t"))
        return None

    peer.script(script)


@pytest.mark.parametrize("assign", [False, True])
def test_loading_converts_and_assigns(peer: Any, assign: bool) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        net = nested(system)
        set_to(system, net, 5.0)
        net.inner.scale.requires_grad_(False)
        state = {
            "layers.first.weight": system.ones(2, 2, dtype=system.float64),
            "layers.first.bias": system.nn.Parameter(system.zeros(2)),
            "inner.scale": system.nn.Parameter(system.zeros(2)),
            "inner.count": system.tensor([7.0]),
            "inner.seen": system.tensor([1, 2]),
            "params.b": system.ones(1),
        }
        before = dict(net.state_dict(keep_vars=True))
        log.append(net.load_state_dict(state, strict=False, assign=assign))
        after = dict(net.state_dict(keep_vars=True))
        for name, value in after.items():
            log.append([name, value, str(value.dtype), value.requires_grad, type(value)])
            log.append([value is before[name], value is state.get(name)])
        return None

    peer.script(script)


def test_a_module_loads_in_its_own_way(peer: Any) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        class Own(system.nn.Linear):  # type: ignore[misc]
            def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
                super()._save_to_state_dict(destination, prefix, keep_vars)
                destination[prefix + "more"] = system.ones(1)

            def _load_from_state_dict(self, state: Any, prefix: str, *rest: Any) -> None:
                metadata, strict, *_, errors = rest
                log.append((prefix, sorted(state), dict(metadata), strict))
                if state.pop(prefix + "more", None) is None:
                    errors.append("no more")
                super()._load_from_state_dict(state, prefix, *rest)

        net = system.nn.Sequential(Own(2, 1), system.nn.ReLU(), Own(1, 1))
        state = net.state_dict()
        log.append(list(state))
        log.append(net.load_state_dict(state))
        del state["2.more"]
        try:
            net.load_state_dict(state)
        except RuntimeError as error:
            log.append(str(error))

    peer.script(script)


@pytest.mark.parametrize("value", [[1], None, 3, "state"], ids=str)
def test_state_dicts_are_mappings(peer: Any, value: Any) -> None:
    peer.refusal(lambda system: system.nn.Linear(1, 1).load_state_dict(value))


# -- building and walking ------------------------------------------------------------------------


def test_walking(peer: Any) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        net = nested(system)
        for options in ({}, {"remove_duplicate": False}, {"prefix": "p"}, {"recurse": False}):
            log.append([name for name, _ in net.named_parameters(**options)])
            log.append([name for name, _ in net.named_buffers(**options)])
        log.append([name for name, _ in net.named_modules()])
        log.append([name for name, _ in net.named_modules(remove_duplicate=False, prefix="q")])
        log.append([name for name, _ in net.named_modules(memo={net.inner})])
        log.append([name for name, _ in net.named_children()])
        log.append([type(module).__name__ for module in net.modules(remove_duplicate=False)])
        log.append([len(list(net.parameters())), len(list(net.buffers(recurse=False)))])
        members = net._named_members(lambda m: m._buffers.items(), prefix="b", recurse=True)
        log.append([name for name, _ in members])
        visited: list[str] = []
        log.append(net.apply(lambda m: visited.append(type(m).__name__)) is net)
        log.append(visited)
        log.append([name for name in dir(net) if name in ("inner", "plain", "gone", "0")])
        log.append(repr(net))
        return None

    peer.script(script)


def early(system: Any, value: Any) -> Any:
    class Early(system.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            self.part = value(system)

    return Early()


class Uninitialised:
    """Makes a module whose `Module.__init__` was not called."""

    def __new__(cls, system: Any) -> Any:
        class Bare(system.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                pass

        return Bare()


REFUSALS: dict[str, Any] = {
    "module early": lambda s: early(s, lambda s: s.nn.ReLU()),
    "parameter early": lambda s: early(s, lambda s: s.nn.Parameter(s.ones(1))),
    "buffer early": lambda s: early(s, lambda s: s.nn.Buffer(s.ones(1))),
    "tensor early": lambda s: early(s, lambda s: s.ones(1)),
    "call early": lambda s: Uninitialised(s)(1),
    "repr early": lambda s: repr(Uninitialised(s)),
    "state dict early": lambda s: Uninitialised(s).state_dict(),
    "register buffer early": lambda s: Uninitialised(s).register_buffer("a", None),
    "register parameter early": lambda s: Uninitialised(s).register_parameter("a", None),
    "add module early": lambda s: Uninitialised(s).add_module("a", None),
    "no forward": lambda s: s.nn.Module()(1),
    "unknown attribute": lambda s: s.nn.Module().other,
    "unknown deleted": lambda s: delattr(s.nn.Module(), "other"),
    "argument of init": lambda s: s.nn.Module(3),
    "keyword of init": lambda s: s.nn.Module(x=3),
    "keyword of a layer": lambda s: s.nn.Linear(2, 2, other=3),
    "number as parameter": lambda s: setattr(s.nn.Linear(1, 1), "weight", 3),
    "tensor as parameter": lambda s: setattr(s.nn.Linear(1, 1), "weight", s.ones(1, 1)),
    "number as module": lambda s: setattr(nested(s), "inner", 3),
    "number as buffer": lambda s: setattr(nested(s).inner, "seen", 3),
    "dotted parameter": lambda s: setattr(s.nn.Module(), "a.b", s.nn.Parameter(s.ones(1))),
    "dotted module": lambda s: setattr(s.nn.Module(), "a.b", s.nn.ReLU()),
    "dotted buffer": lambda s: setattr(s.nn.Module(), "a.b", s.nn.Buffer(s.ones(1))),
    "parameter over a method": lambda s: setattr(
        s.nn.Module(), "forward", s.nn.Parameter(s.ones(1))
    ),
    "parameter over training": lambda s: setattr(
        s.nn.Module(), "training", s.nn.Parameter(s.ones(1))
    ),
    "module over a method": lambda s: setattr(s.nn.Module(), "forward", s.nn.ReLU()),
    "computed parameter": lambda s: s.nn.Module().register_parameter(
        "p", s.ones(1, requires_grad=True) * 2
    ),
    "number as name": lambda s: s.nn.Module().add_module(3, None),
    "empty name": lambda s: s.nn.Module().register_buffer("", None),
    "taken name": lambda s: s.nn.Module().register_buffer("training", None),
    "class as module": lambda s: s.nn.Module().add_module("a", s.nn.ReLU),
    "list in Parameter": lambda s: s.nn.Parameter([1.0]),
    "list in Buffer": lambda s: s.nn.Buffer([1.0]),
    "integer Parameter": lambda s: s.nn.Parameter(s.tensor([1, 2])),
    "missing path": lambda s: nested(s).get_submodule("inner.other"),
    "no module at path": lambda s: nested(s).get_submodule("inner.scale"),
    "no parameter at path": lambda s: nested(s).get_parameter("inner.seen"),
    "no buffer at path": lambda s: nested(s).get_buffer("inner.scale"),
    "set nowhere": lambda s: nested(s).set_submodule("", s.nn.ReLU()),
    "set a number": lambda s: nested(s).set_submodule("inner", 3),
    "set a new name": lambda s: nested(s).set_submodule("other", s.nn.ReLU()),
    "set a new name strictly": lambda s: nested(s).set_submodule("other", s.nn.ReLU(), strict=True),
    "set over a parameter": lambda s: nested(s).set_submodule("inner.scale", s.nn.ReLU()),
    "set below nothing": lambda s: nested(s).set_submodule("other.a", s.nn.ReLU()),
    "train with text": lambda s: s.nn.Module().train("yes"),
    "integer dtype": lambda s: s.nn.Linear(1, 1).to(s.int64),
    "integer tensor": lambda s: s.nn.Linear(1, 1).to(s.tensor([1])),
    "unknown device": lambda s: s.nn.Linear(1, 1).to("nowhere"),
    "unknown format": lambda s: s.nn.Linear(1, 1).to(memory_format=3),
    "unknown keyword": lambda s: s.nn.Linear(1, 1).to(other=3),
    "too many arguments": lambda s: s.nn.Linear(1, 1).to(s.float32, True, 3, 4),
    "to nothing": lambda s: s.nn.Linear(1, 1).to(),
    "cuda": lambda s: s.nn.Linear(1, 1).cuda(),
    "to cuda": lambda s: s.nn.Linear(1, 1).to("cuda"),
    "cuda of nothing": lambda s: s.nn.ReLU().cuda(),
    "unknown type": lambda s: s.nn.Linear(1, 1).type("nothing"),
    "to_empty without device": lambda s: s.nn.Linear(1, 1).to_empty(),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_the_same_uses_are_refused(peer: Any, case: str) -> None:
    peer.refusal(REFUSALS[case])


SAID_OTHERWISE = {
    "call early", "add module early", "dotted parameter", "dotted buffer", "class as module",
    "list in Parameter", "list in Buffer", "integer Parameter", "unknown device", "unknown format",
    "unknown keyword", "unknown type", "too many arguments", "computed parameter",
    "to_empty without device",
}  # fmt: skip


def test_messages(peer: Any) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        for case in REFUSALS.keys() - SAID_OTHERWISE:
            try:
                REFUSALS[case](system)
            except Exception as error:
                log.append((case, str(error)))
        return None

    peer.script(script)


# -- changing ------------------------------------------------------------------------------------

CHANGES: dict[str, Any] = {
    "double": lambda s, net: net.double(),
    "float": lambda s, net: net.double().float(),
    "half": lambda s, net: net.half(),
    "bfloat16": lambda s, net: net.bfloat16(),
    "type": lambda s, net: net.inner.type(s.float64),
    "type by name": lambda s, net: net.inner.type("torch.DoubleTensor"),
    "to dtype": lambda s, net: net.to(s.float64),
    "to dtype, non_blocking": lambda s, net: net.to(s.float64, True),
    "to device": lambda s, net: net.to("cpu"),
    "to device object": lambda s, net: net.to(s.device("cpu")),
    "to device and dtype": lambda s, net: net.to("cpu", s.float64, non_blocking=True),
    "to keywords": lambda s, net: net.to(device="cpu", dtype=s.float64),
    "to tensor": lambda s, net: net.to(s.ones(1, dtype=s.float64)),
    "to memory format": lambda s, net: net.to(memory_format=s.channels_last),
    "to python float": lambda s, net: net.to(float),
    "cpu": lambda s, net: net.cpu(),
    "to_empty": lambda s, net: net.to_empty(device="cpu"),
    "to_empty, not recursive": lambda s, net: net.inner.to_empty(device="cpu", recurse=False),
    "_apply": lambda s, net: net._apply(lambda x: x * 2),
    "_apply, not recursive": lambda s, net: net._apply(lambda x: x * 2, recurse=False),
    "share_memory": lambda s, net: net.share_memory(),
    "requires_grad_": lambda s, net: net.requires_grad_(False),
    "eval": lambda s, net: net.eval(),
    "zero_grad": lambda s, net: net.zero_grad(),
    "zero_grad in place": lambda s, net: net.zero_grad(set_to_none=False),
}


@pytest.mark.parametrize("case", CHANGES)
def test_changing(peer: Any, case: str) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        net = nested(system)
        set_to(system, net, 0.5)
        net.inner.register_buffer("number", system.tensor([1, 2]))
        for parameter in net.parameters():
            parameter.grad = system.ones_like(parameter)
        before = dict(net.named_parameters(remove_duplicate=False))
        grads = {name: parameter.grad for name, parameter in before.items()}
        changed = CHANGES[case](system, net)
        log.append([changed is net, changed is net.inner, changed is None])
        shows = not case.startswith("to_empty")
        for name, value in [*net.named_parameters(remove_duplicate=False), *net.named_buffers()]:
            log.append([name, str(value.dtype), value.requires_grad, type(value), value.is_leaf])
            log.append([value.float() if shows else list(value.shape), value is before.get(name)])
            if name in before:
                grad = value.grad
                log.append(None if grad is None else [grad.float() if shows else 0, grad.dtype])
                log.append(grad is grads[name])
        log.append([module.training for module in net.modules()])
        return None

    peer.script(script)


# -- copies --------------------------------------------------------------------------------------


class Tied:
    """A maker of modules that share parameters, buffers and children."""

    def __new__(cls, system: Any) -> Any:
        nn = system.nn
        net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU())
        net[1].weight = net[0].weight
        shared = system.zeros(2)
        for layer in net[:2]:
            layer.register_buffer("shared", shared)
        net[1].register_buffer("scratch", system.ones(1), persistent=False)
        net.append(net[0])
        net.eval()
        net[0].weight.grad = system.ones(2, 2)
        net[0].tag = {"plain": 3}
        return net


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda net: pickle.loads(pickle.dumps(net)),
    "copy": copy.copy,
}


@pytest.mark.parametrize("case", COPIES)
def test_copies_keep_what_is_shared(peer: Any, case: str) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        net = Tied(system)
        handle = net[0].register_forward_hook(print)
        twin = COPIES[case](net)
        log.append([twin[1].weight is twin[0].weight, twin[1].shared is twin[0].shared])
        log.append([twin[3] is twin[0], twin[0] is net[0], twin[0].weight is net[0].weight])
        log.append([twin.training, type(twin[0].weight), twin[0].weight.grad, twin[0].tag])
        log.append([sorted(twin[1]._non_persistent_buffers_set), list(twin.state_dict())])
        log.append([len(twin[0]._forward_hooks), repr(twin)])
        handle.remove()
        log.append([len(net[0]._forward_hooks), len(twin[0]._forward_hooks)])
        return None

    peer.script(script)


@pytest.mark.parametrize("case", ["deepcopy", "pickle", "copy"])
@pytest.mark.parametrize("kind", ["Parameter", "Buffer", "tensor"])
def test_copies_of_tensors(peer: Any, kind: str, case: str) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        make = {"tensor": lambda x: x.requires_grad_(), "Parameter": system.nn.Parameter,
                "Buffer": lambda x: system.nn.Buffer(x, persistent=False)}[kind]  # fmt: skip
        x = make(system.ones(2))
        x.note = "kept"
        if x.requires_grad:
            x.grad = system.ones(2)
        y = COPIES[case](x)
        log.append([y, type(y), y.requires_grad, y.grad, getattr(y, "note", None)])
        log.append([isinstance(y, system.nn.Buffer), getattr(y, "persistent", None)])
        log.append([isinstance(y, system.nn.Parameter), isinstance(y, system.Tensor)])
        return None

    peer.script(script)


def test_a_copied_hook_belongs_to_the_copy(peer: Any) -> None:
    def script(system: Any, log: list[Any]) -> Any:
        net = system.nn.Linear(1, 1)

        def hook(module: Any, *_: Any) -> None:
            log.append(["loads", module is net])

        net.register_load_state_dict_pre_hook(hook)
        net.load_state_dict(net.state_dict())
        twin = copy.deepcopy(net)
        twin.load_state_dict(net.state_dict())

    peer.script(script)


def test_loads_of_torch_state(peer: Any) -> None:
    theirs, ours = nested(peer.torch), nested(frontend)
    set_to(peer.torch, theirs, 2.5)
    state = {k: frontend.tensor(v.detach().numpy()) for k, v in theirs.state_dict().items()}
    assert repr(ours.load_state_dict(state)) == "<All keys matched successfully>"
    peer.agree(dict(ours.state_dict()), dict(theirs.state_dict()))

"""Every optimizer over 20 steps against PyTorch's, eager and compiled; groups, state dicts, hooks,
errors."""

from __future__ import annotations

import copy
import pickle
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import frontend

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.01, "betas": (0.8, 0.99), "weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"maximize": True, "eps": 1e-3, "betas": (0.0, 0.9)}),
    ("Adam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.2, "amsgrad": True, "maximize": True}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.02, "alpha": 0.9, "centered": True, "momentum": 0.5}),
    ("RMSprop", {"weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.5, "weight_decay": 0.1}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1, "maximize": True}),
    ("Adamax", {}),
    ("Adamax", {"lr": 0.05, "betas": (0.7, 0.9), "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {}),
    ("NAdam", {"lr": 0.02, "momentum_decay": 0.1, "weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RAdam", {}),
    ("RAdam", {"lr": 0.02, "betas": (0.8, 0.9), "weight_decay": 0.1}),
    ("RAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("ASGD", {}),
    ("ASGD", {"lr": 0.05, "lambd": 0.1, "alpha": 0.5, "t0": 4, "weight_decay": 0.1}),
    ("ASGD", {"t0": 0, "maximize": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.05, "etas": (0.3, 1.7), "step_sizes": (0.01, 0.1), "maximize": True}),
]
IDS = [f"{name}-{'-'.join(options) or 'defaults'}" for name, options in CASES]
SHAPES = ((3, 4), (5,), ())


class Run:
    """Some parameters in two groups, and an optimizer of either system."""

    def __init__(self, system: Any, name: str, options: dict[str, Any], dtype: str = "float32"):
        random = np.random.default_rng(1)
        self.params = [
            # Away from 0, where a sum that happens to be small would have few digits.
            system.tensor((random.standard_normal(shape) + 4).astype(dtype)).requires_grad_()
            for shape in SHAPES
        ]
        first, *others = self.params
        lr = options.get("lr", 1e-2) / 2
        groups = [{"params": others}, {"params": [first], "lr": lr}]
        self.optimizer = getattr(system.optim, name)(groups, **options)

    def step(self, *directions: Any) -> None:
        """A step along gradients that hardly depend on the parameters: differences do not grow."""
        terms = [(p * g).sum() + 0.01 * (p * p).sum() for p, g in zip(self.params, directions)]
        self.optimizer.zero_grad()
        sum(terms).backward()
        self.optimizer.step()


def directions(system: Any, count: int, dtype: str = "float32") -> list[list[Any]]:
    random = np.random.default_rng(2)
    return [
        [system.tensor(random.standard_normal(shape).astype(dtype)) for shape in SHAPES]
        for _ in range(count)
    ]


def converted(value: Any) -> Any:
    """What PyTorch's state dict holds, as our tensors."""
    if isinstance(value, dict):
        return {key: converted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [converted(item) for item in value]
    return frontend.tensor(value.detach().numpy()) if hasattr(value, "numpy") else value


def same(peer: Any, ours: Run, theirs: Run, label: str) -> None:
    for i, (p, q) in enumerate(zip(ours.params, theirs.params, strict=True)):
        peer.agree(p.detach(), q.detach(), f"{label}, parameter {i}")


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_twenty_steps(peer: Any, name: str, options: dict[str, Any], mode: str) -> None:
    theirs, ours = Run(peer.torch, name, options), Run(frontend, name, options)
    step = ours.step if mode == "eager" else frontend.compile(ours.step)
    for i, (x, y) in enumerate(zip(directions(frontend, 20), directions(peer.torch, 20))):
        step(*x)
        theirs.step(*y)
        same(peer, ours, theirs, f"step {i}")
    expected = theirs.optimizer.state_dict()
    actual = ours.optimizer.state_dict()
    assert actual["param_groups"] == expected["param_groups"]
    peer.agree(actual["state"], expected["state"], "state", 2e-5)
    if mode == "compiled":
        assert len(step.specializations) == 1


@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_float64(peer: Any, name: str, options: dict[str, Any]) -> None:
    runs = [Run(system, name, options, "float64") for system in (frontend, peer.torch)]
    for x, y in zip(directions(frontend, 5, "float64"), directions(peer.torch, 5, "float64")):
        runs[0].step(*x)
        runs[1].step(*y)
    for p, q in zip(runs[0].params, runs[1].params):
        # Step counts are float32, and so is NAdam's product of momenta.
        peer.agree(p.detach(), q.detach(), name, 1e-7 if name == "NAdam" else 1e-12)


@pytest.mark.parametrize("mode", ["eager", "compiled"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_a_state_dict_of_torch_goes_on(
    peer: Any, name: str, options: dict[str, Any], mode: str
) -> None:
    theirs, ours = Run(peer.torch, name, options), Run(frontend, name, options)
    step = ours.step if mode == "eager" else frontend.compile(ours.step)
    step(*directions(frontend, 1)[0])  # there is some state already, and an entry that has it
    for x in directions(peer.torch, 3):
        theirs.step(*x)
    with frontend.no_grad():
        for p, q in zip(ours.params, theirs.params):
            p.copy_(frontend.tensor(q.detach().numpy()))
    ours.optimizer.load_state_dict(converted(theirs.optimizer.state_dict()))
    for x, y in zip(directions(frontend, 3), directions(peer.torch, 3)):
        step(*x)
        theirs.step(*y)
    same(peer, ours, theirs, "after three more")


def test_states_that_are_loaded_take_the_parameters_dtype(peer: Any) -> None:
    theirs = Run(peer.torch, "Adam", {})
    theirs.step(*directions(peer.torch, 1)[0])
    ours = Run(frontend, "Adam", {}, "float64")
    ours.optimizer.load_state_dict(converted(theirs.optimizer.state_dict()))
    other = Run(peer.torch, "Adam", {}, "float64")
    other.optimizer.load_state_dict(theirs.optimizer.state_dict())
    peer.agree(ours.optimizer.state_dict()["state"], other.optimizer.state_dict()["state"])


def pair(system: Any, count: int = 2) -> list[Any]:
    return [system.ones(2, requires_grad=True) for _ in range(count)]


BAD: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": -1.0}), ("SGD", {"momentum": -1.0}), ("SGD", {"weight_decay": -1.0}),
    ("SGD", {"nesterov": True}), ("SGD", {"fused": True, "foreach": True}),
    ("SGD", {"fused": True, "differentiable": True}),
    ("Adam", {"lr": -1.0}), ("Adam", {"eps": -1.0}), ("Adam", {"betas": (1.0, 0.5)}),
    ("Adam", {"betas": (0.5, 1.0)}), ("AdamW", {"weight_decay": -1.0}),
    ("RMSprop", {"lr": -1.0}), ("RMSprop", {"alpha": -1.0}), ("RMSprop", {"momentum": -1.0}),
    ("Adagrad", {"lr_decay": -1.0}), ("Adagrad", {"initial_accumulator_value": -1.0}),
    ("Adadelta", {"rho": 2.0}), ("Adamax", {"betas": (-1, 0.9)}), ("NAdam", {"eps": -1.0}),
    ("NAdam", {"momentum_decay": -1.0}), ("RAdam", {"lr": -1.0}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), BAD, ids=lambda x: str(x))
def test_the_same_options_are_refused_in_the_same_words(
    peer: Any, name: str, options: dict[str, Any]
) -> None:
    messages = []
    for system in (peer.torch, frontend):
        with pytest.raises((ValueError, RuntimeError)) as caught:
            getattr(system.optim, name)(pair(system), **options)
        messages.append((caught.type, str(caught.value)))
    assert messages[0] == messages[1]


def _pair_in_two_groups(t: Any) -> Any:
    p = t.ones(2, requires_grad=True)
    return [{"params": p}, {"params": p}]


GIVEN: dict[str, Any] = {
    "nothing": lambda t: [],
    "a tensor": lambda t: t.ones(2, requires_grad=True),
    "a number": lambda t: [3],
    "a text": lambda t: "ab",
    "a set in a group": lambda t: [{"params": set(pair(t))}],
    "no leaf": lambda t: [t.ones(2, requires_grad=True) * 2],
    "twice": lambda t: pair(t, 1) * 2,
    "in two groups": _pair_in_two_groups,
    "no params": lambda t: [{"lr": 0.1}],
    "some names": lambda t: [("a", t.ones(2)), t.ones(2)],
    "names in one group": lambda t: [{"params": [("a", t.ones(2))]}, {"params": [t.ones(2)]}],
    "names": lambda t: [("a", t.ones(2)), ("b", t.ones(2))],
    "an iterator": lambda t: iter(pair(t)),
    "groups": lambda t: [{"params": pair(t), "lr": 1.0}, {"params": pair(t)[0]}],
    "an empty group": lambda t: [{"params": []}],
    "tensor rate": lambda t: [{"params": pair(t), "lr": t.tensor(0.5)}],
}


@pytest.mark.parametrize("name", GIVEN)
def test_what_is_given_as_parameters(peer: Any, name: str) -> None:
    def run(system: Any, log: list[Any]) -> Any:
        optimizer = system.optim.SGD(GIVEN[name](system), lr=0.1)
        log.append(repr(optimizer))
        if name != "twice":  # PyTorch numbers such a parameter by its last place, we by its first
            log.append(optimizer.state_dict()["param_groups"])
        return [list(group) for group in optimizer.param_groups]

    peer.script(run)


def test_names_are_kept_with_the_groups(peer: Any) -> None:
    def run(system: Any, log: list[Any]) -> Any:
        named = [("a", system.ones(2)), ("b", system.ones(2))]
        others = [("x", system.ones(2)), ("y", system.ones(2))]
        first, second = system.optim.SGD(named), system.optim.SGD(others)
        plain = system.optim.SGD([p for _, p in others])
        log.append(first.state_dict()["param_groups"])
        second.load_state_dict(first.state_dict())
        plain.load_state_dict(first.state_dict())
        return [o.param_groups[0].get("param_names") for o in (first, second, plain)]

    peer.script(run)


@pytest.mark.parametrize("name", [name for name, options in CASES if not options])
def test_repr_and_copies(peer: Any, name: str) -> None:
    def run(system: Any, log: list[Any]) -> Any:
        params = pair(system)
        optimizer = getattr(system.optim, name)(params, lr=0.25)
        for p in params:
            p.grad = system.ones(2)
        optimizer.step()
        log.append(repr(optimizer))
        for copied in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
            copied.step()
            own = copied.param_groups[0]["params"]
            log.append([p.detach() for p in own])
            log.append([list(copied.state[p]) for p in own])
            log.append(repr(copied))
        return [p.detach() for p in params]

    peer.script(run)


def test_hooks_run_in_the_same_order(peer: Any) -> None:
    def run(system: Any, log: list[Any]) -> None:
        (p,) = pair(system, 1)
        p.grad = system.ones(2)
        optimizer = system.optim.SGD([p], lr=0.5)
        module = import_module(f"{system.__name__}.optim.optimizer")
        several = [
            module.register_optimizer_step_pre_hook(lambda o, a, k: log.append("global pre")),
            module.register_optimizer_step_post_hook(lambda o, a, k: log.append("global post")),
            optimizer.register_step_pre_hook(lambda o, a, k: log.append(["pre", len(a), list(k)])),
            optimizer.register_step_pre_hook(lambda o, a, k: ((o, None), {})),
            optimizer.register_step_post_hook(lambda o, a, k: log.append(["post", len(a)])),
        ]
        optimizer.register_state_dict_pre_hook(lambda o: log.append("state"))
        optimizer.register_state_dict_post_hook(lambda o, s: {**s, "more": 1})
        optimizer.register_state_dict_post_hook(lambda o, s: log.append("first"), prepend=True)
        optimizer.register_load_state_dict_pre_hook(
            lambda o, s: {"state": s["state"], "param_groups": s["param_groups"]}
        )
        optimizer.register_load_state_dict_post_hook(lambda o: log.append("loaded"))
        optimizer.step(closure=lambda: log.append("closure") or 3.0)
        state = optimizer.state_dict()
        log.append(list(state))
        optimizer.load_state_dict(state)
        for handle in several:
            handle.remove()
        log.append(optimizer.step(lambda: 2.0))
        optimizer.register_step_pre_hook(lambda o, a, k: 3)
        optimizer.step()

    _, error = peer.script(run)
    assert isinstance(error, RuntimeError)


def test_an_optimizer_of_the_users_own(peer: Any) -> None:
    """As PyTorch's users write them: a `step` under no_grad, state made when it is first needed."""

    def run(system: Any, log: list[Any]) -> Any:
        class Lion(system.optim.Optimizer):
            def __init__(self, params: Any, lr: float = 0.1, beta: float = 0.9):
                super().__init__(params, {"lr": lr, "beta": beta})

            @system.no_grad()
            def step(self, closure: Any = None) -> Any:
                for group in self.param_groups:
                    for p in group["params"]:
                        state = self.state[p]
                        if len(state) == 0:
                            state["count"] = 0
                            state["mean"] = system.zeros_like(p)
                        state["count"] += 1
                        state["mean"].mul_(group["beta"]).add_(p.grad, alpha=1 - group["beta"])
                        p.add_(state["mean"].sign(), alpha=-group["lr"])

        params = pair(system)
        optimizer = Lion(params)
        optimizer.register_step_post_hook(lambda o, a, k: log.append("stepped"))
        for _ in range(3):
            optimizer.zero_grad()
            (params[0] * params[1] + params[0]).sum().backward()
            optimizer.step()
        log.append(optimizer.state_dict())
        log.append(repr(optimizer))
        return [p.detach() for p in params]

    peer.script(run)

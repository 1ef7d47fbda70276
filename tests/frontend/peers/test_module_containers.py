"""Containers of modules and parameters: the same use on both systems."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import pytest


def parts(system: Any) -> list[Any]:
    nn = system.nn
    return [nn.ReLU(), nn.Tanh(), nn.GELU()]


def seen(value: Any) -> Any:
    """What both systems show of a container or what it gives back."""
    if hasattr(value, "state_dict"):
        return [type(value).__name__, list(value._modules), list(value.state_dict()), repr(value)]
    if isinstance(value, tuple | list):
        return [seen(item) for item in value]
    return value


def uses(make: Any, cases: dict[str, Any]) -> dict[str, Any]:
    """Scripts that make a container, use it, and log what came back and what it is then."""

    def script(use: Any) -> Any:
        def run(system: Any, log: list[Any]) -> Any:
            container = make(system)
            log.append(seen(use(system, container)))
            log.append(seen(container))

        return run

    return {name: script(use) for name, use in cases.items()}


def assigned(key: Any, value: Any) -> Any:
    def use(system: Any, container: Any) -> None:
        container[key] = value(system) if callable(value) else value

    return use


def removed(key: Any) -> Any:
    return lambda system, container: container.__delitem__(key)


def relu(system: Any) -> Any:
    return system.nn.ReLU()


READING = {
    "len": lambda s, c: len(c),
    "list": lambda s, c: list(c),
    "repr": lambda s, c: repr(c),
    "dir": lambda s, c: [name for name in dir(c) if name.isdigit()],
    "pickle": lambda s, c: pickle.loads(pickle.dumps(c)),
    "deepcopy": lambda s, c: copy.deepcopy(c),
}
LISTS = {
    **READING,
    "first": lambda s, c: c[0],
    "last": lambda s, c: c[-1],
    "slice": lambda s, c: c[1:],
    "step": lambda s, c: c[::-1],
    "past the end": lambda s, c: c[3],
    "text index": lambda s, c: c["a"],
    "set": assigned(1, relu),
    "set last": assigned(-1, relu),
    "set past the end": assigned(7, relu),
    "set number": assigned(0, 3),
    "set None": assigned(0, None),
    "append": lambda s, c: c.append(relu(s)) is c,
    "append a number": lambda s, c: c.append(3),
    "append a class": lambda s, c: c.append(s.nn.ReLU),
    "extend": lambda s, c: c.extend(parts(s)) is c,
    "extend by a generator": lambda s, c: c.extend(relu(s) for _ in range(2)),
    "extend by a number": lambda s, c: c.extend(3),
    "insert first": lambda s, c: c.insert(0, relu(s)) is None,
    "insert between": lambda s, c: c.insert(2, relu(s)) is None,
    "insert at the end": lambda s, c: c.insert(3, relu(s)) is None,
    "delete": removed(0),
    "delete last": removed(-1),
    "delete slice": removed(slice(0, 2)),
    "delete past the end": removed(9),
    "pop": lambda s, c: c.pop(1),
    "pop last": lambda s, c: c.pop(-1),
    "pop slice": lambda s, c: c.pop(slice(0, 2)),
    "pop without": lambda s, c: c.pop(),
    "pop past the end": lambda s, c: c.pop(5),
    "contains": lambda s, c: [c[0] in c, relu(s) in c],
    "reversed": lambda s, c: list(reversed(c)),
}
SEQUENTIAL = uses(
    lambda s: s.nn.Sequential(*parts(s)),
    {
        **LISTS,
        "insert behind the end": lambda s, c: c.insert(9, relu(s)),
        "insert before the last": lambda s, c: c.insert(-1, relu(s)) is c,
        "insert a number": lambda s, c: c.insert(0, 3),
        "add": lambda s, c: c + c,
        "add a list": lambda s, c: c + [relu(s)],
        "add in place": lambda s, c: c.__iadd__(s.nn.Sequential(relu(s))) is c,
        "add a list in place": lambda s, c: c.__iadd__([relu(s)]),
        "times": lambda s, c: [c * 2, 2 * c],
        "times nothing": lambda s, c: c * 0,
        "times text": lambda s, c: c * "a",
        "times in place": lambda s, c: c.__imul__(3) is c,
        "times nothing in place": lambda s, c: c.__imul__(0),
        "call": lambda s, c: c(s.ones(2)).shape[0],
    },
)
NAMED = uses(
    lambda s: s.nn.Sequential(OrderedDict(zip("abc", parts(s)))),
    {
        **READING,
        "by name": lambda s, c: c.b,
        "by index": lambda s, c: c[1],
        "slice": lambda s, c: c[:2],
        "set": assigned(1, relu),
        "append": lambda s, c: c.append(relu(s)),
        "delete": removed(1),
        "delete slice": removed(slice(0, 2)),
        "pop": lambda s, c: c.pop(0),
        "add": lambda s, c: c + c,
    },
)
MODULE_LIST = uses(
    lambda s: s.nn.ModuleList(parts(s)),
    {
        **LISTS,
        "add": lambda s, c: c + [relu(s)],
        "add a number": lambda s, c: c + 3,
        "add in place": lambda s, c: c.__iadd__([relu(s)]) is c,
        "call": lambda s, c: c(1),
        "set slice": assigned(slice(0, 1), relu),
        "with None": lambda s, c: s.nn.ModuleList([relu(s), None]),
        "alike": lambda s, c: s.nn.ModuleList([relu(s), relu(s), s.nn.Linear(1, 1), relu(s)]),
        "empty": lambda s, c: s.nn.ModuleList(),
    },
)
MODULE_DICT = uses(
    lambda s: s.nn.ModuleDict(dict(zip("bac", parts(s)))),
    {
        **READING,
        "get": lambda s, c: c["a"],
        "missing": lambda s, c: c["q"],
        "set": assigned("z", relu),
        "set again": assigned("a", relu),
        "set number": assigned("a", 3),
        "set number key": assigned(3, relu),
        "set taken name": assigned("keys", relu),
        "delete": removed("a"),
        "delete missing": removed("q"),
        "contains": lambda s, c: ["a" in c, "q" in c, 3 in c],
        "pop": lambda s, c: c.pop("a"),
        "pop missing": lambda s, c: c.pop("q"),
        "keys": lambda s, c: list(c.keys()),
        "values": lambda s, c: list(c.values()),
        "items": lambda s, c: list(c.items()),
        "clear": lambda s, c: c.clear(),
        "update by a dict": lambda s, c: c.update({"z": relu(s), "a": relu(s)}),
        "update by pairs": lambda s, c: c.update([("z", relu(s)), ["y", relu(s)]]),
        "update by a ModuleDict": lambda s, c: c.update(s.nn.ModuleDict({"x": relu(s)})),
        "update by a number": lambda s, c: c.update(3),
        "update by numbers": lambda s, c: c.update([3]),
        "update by triples": lambda s, c: c.update([("a", relu(s), 3)]),
        "call": lambda s, c: c(1),
        "empty": lambda s, c: s.nn.ModuleDict(),
    },
)


def values(system: Any) -> list[Any]:
    return [system.ones(2, 3), system.nn.Parameter(system.zeros(1)), 3]


PARAMETER_LIST = uses(
    lambda s: s.nn.ParameterList(values(s)),
    {
        **READING,
        "get": lambda s, c: [c[0], c[-1], type(c[0]).__name__],
        "slice": lambda s, c: c[1:],
        "past the end": lambda s, c: c[7],
        "text index": lambda s, c: c["a"],
        "set": assigned(0, lambda s: s.ones(4)),
        "set a number": assigned(2, 5),
        "set a number over a parameter": assigned(0, 5),
        "set past the end": assigned(7, lambda s: s.ones(4)),
        "append": lambda s, c: c.append(s.ones(4)) is c,
        "append a number": lambda s, c: c.append(4) is c,
        "extend": lambda s, c: c.extend([s.ones(4)]) is c,
        "extend by a tensor": lambda s, c: c.extend(s.ones(4)),
        "extend by a number": lambda s, c: c.extend(3),
        "add in place": lambda s, c: c.__iadd__([s.ones(1)]) is c,
        "delete": lambda s, c: c.__delitem__(0),
        "call": lambda s, c: c(1),
        "parameters": lambda s, c: [name for name, _ in c.named_parameters()],
        "empty": lambda s, c: s.nn.ParameterList(),
    },
)
PARAMETER_DICT = uses(
    lambda s: s.nn.ParameterDict(dict(zip("bac", values(s)))),
    {
        **READING,
        "get": lambda s, c: [c["a"], c.get("c"), c.get("q"), c.get("q", 5)],
        "missing": lambda s, c: c["q"],
        "number key": lambda s, c: c[3],
        "set": assigned("z", lambda s: s.ones(1)),
        "set again": assigned("a", lambda s: s.ones(1)),
        "set dotted": assigned("a.b", lambda s: s.ones(1)),
        "set taken name": assigned("keys", lambda s: s.ones(1)),
        "set a number over a parameter": assigned("a", 3),
        "delete": removed("a"),
        "delete missing": removed("q"),
        "contains": lambda s, c: ["a" in c, "q" in c, 3 in c],
        "keys": lambda s, c: [list(c.keys()), list(reversed(c))],
        "values": lambda s, c: list(c.values()),
        "items": lambda s, c: list(c.items()),
        "pop": lambda s, c: c.pop("a"),
        "pop missing": lambda s, c: c.pop("q"),
        "popitem": lambda s, c: [c.popitem(), c.popitem(), c.popitem()],
        "popitem of nothing": lambda s, c: s.nn.ParameterDict().popitem(),
        "setdefault": lambda s, c: [c.setdefault("z", s.ones(1)), c.setdefault("a", s.ones(1))],
        "fromkeys": lambda s, c: c.fromkeys(["x", "y"], s.ones(1)),
        "copy": lambda s, c: c.copy(),
        "clear": lambda s, c: c.clear(),
        "or": lambda s, c: c | s.nn.ParameterDict({"e": s.ones(1)}),
        "or a dict": lambda s, c: c | {"e": 1},
        "or of a dict": lambda s, c: {"e": 1} | c,
        "or in place": lambda s, c: c.__ior__({"e": s.ones(1)}) is c,
        "update by a dict": lambda s, c: c.update({"z": s.ones(1), "d": s.ones(1)}),
        "update in order": lambda s, c: c.update(OrderedDict(z=s.ones(1), d=s.ones(1))),
        "update by pairs": lambda s, c: c.update([("z", s.ones(1)), ("d", 3)]),
        "update by a number": lambda s, c: c.update(3),
        "update by numbers": lambda s, c: c.update([3]),
        "update by triples": lambda s, c: c.update([("a", 1, 2)]),
        "call": lambda s, c: c(1),
        "empty": lambda s, c: s.nn.ParameterDict(),
    },
)
FAMILIES = {
    "Sequential": SEQUENTIAL, "named Sequential": NAMED, "ModuleList": MODULE_LIST,
    "ModuleDict": MODULE_DICT, "ParameterList": PARAMETER_LIST, "ParameterDict": PARAMETER_DICT,
}  # fmt: skip


@pytest.mark.parametrize(
    ("family", "case"), [(family, case) for family, cases in FAMILIES.items() for case in cases]
)
def test_containers(peer: Any, family: str, case: str) -> None:
    peer.script(FAMILIES[family][case])


MAKING = {
    "Sequential of a number": lambda s: s.nn.Sequential(3),
    "Sequential of a dict": lambda s: s.nn.Sequential({"a": relu(s)}),
    "Sequential of a list": lambda s: s.nn.Sequential([relu(s)]),
    "Sequential of a class": lambda s: s.nn.Sequential(s.nn.ReLU),
    "Sequential with None": lambda s: s.nn.Sequential(relu(s), None),
    "ModuleList of a number": lambda s: s.nn.ModuleList(3),
    "ModuleDict of a number": lambda s: s.nn.ModuleDict(3),
    "ParameterList of a number": lambda s: s.nn.ParameterList(3),
    "ParameterList of a generator": lambda s: s.nn.ParameterList(x for x in [s.ones(1)]),
    "ParameterDict of a number": lambda s: s.nn.ParameterDict(3),
}


@pytest.mark.parametrize("case", MAKING)
def test_the_same_arguments_are_refused(peer: Any, case: str) -> None:
    peer.refusal(MAKING[case])

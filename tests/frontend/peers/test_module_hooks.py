"""Hooks of Modules: the same script on both systems leaves the same list of events."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend
from frontend.nn.modules.global_hooks import GLOBAL

Log = list[Any]


def filled(system: Any, *shape: int, start: float = 1.0, grad: bool = False) -> Any:
    values = np.arange(start, start + np.prod(shape), dtype=np.float32).reshape(shape) / 8
    tensor = system.tensor(values)
    return tensor.requires_grad_() if grad else tensor


def linear(system: Any, inputs: int, outputs: int, **options: Any) -> Any:
    layer = system.nn.Linear(inputs, outputs, **options)
    with system.no_grad():
        layer.weight.copy_(filled(system, outputs, inputs))
        if layer.bias is not None:
            layer.bias.copy_(filled(system, outputs, start=3.0))
    return layer


def noting(log: Log, name: str, returned: Any = None) -> Callable[..., Any]:
    """A hook that logs its name and what it was handed."""

    def hook(module: Any, *arguments: Any) -> Any:
        log.append((name, module, arguments))
        if isinstance(returned, Exception):
            raise returned
        return returned(*arguments) if callable(returned) else returned

    return hook


def two_layers(system: Any) -> Any:
    return system.nn.Sequential(linear(system, 3, 2), system.nn.Tanh(), linear(system, 2, 1))


# -- order ---------------------------------------------------------------------------------------


def test_all_kinds_in_one_call(peer: Any) -> None:
    def script(system: Any, log: Log) -> Any:
        every = system.nn.modules.module
        net = two_layers(system)
        handles = [
            every.register_module_forward_pre_hook(noting(log, "all pre")),
            every.register_module_forward_hook(noting(log, "all forward")),
            every.register_module_full_backward_pre_hook(noting(log, "all backward pre")),
            every.register_module_full_backward_hook(noting(log, "all backward")),
        ]
        for module in net.modules():
            handles += [
                module.register_forward_pre_hook(noting(log, "pre 1")),
                module.register_forward_pre_hook(noting(log, "pre 0"), prepend=True),
                module.register_forward_hook(noting(log, "forward 1")),
                module.register_forward_hook(noting(log, "forward 0"), prepend=True),
                module.register_full_backward_pre_hook(noting(log, "backward pre 1")),
                module.register_full_backward_pre_hook(noting(log, "backward pre 0"), prepend=True),
                module.register_full_backward_hook(noting(log, "backward 1")),
                module.register_full_backward_hook(noting(log, "backward 0"), prepend=True),
            ]
        x = filled(system, 4, 3, grad=True)
        net(x).sum().backward()
        for handle in handles:
            handle.remove()
        count = len(log)
        net(x).sum().backward()
        assert len(log) == count
        return x.grad

    assert len(peer.script(script)[0]) > 40


@pytest.mark.parametrize("seed", range(24))
def test_random_registrations(peer: Any, seed: int) -> None:
    def script(system: Any, log: Log) -> Any:
        draw = random.Random(seed)
        every, handles = system.nn.modules.module, []
        net = two_layers(system)
        targets = list(net.modules())
        returns: list[Any] = [None, None, None, lambda *arguments: arguments[-1] * 2]
        for number in range(draw.randint(3, 9)):
            module, returned = draw.choice(targets), draw.choice(returns)
            options: dict[str, Any] = {"prepend": draw.random() < 0.5}
            match draw.randrange(7):
                case 0:
                    hook = noting(log, f"pre {number}", returned and (lambda args: args[0] + 1))
                    handles.append(module.register_forward_pre_hook(hook, **options))
                case 1:
                    options["always_call"] = draw.random() < 0.5
                    hook = noting(log, f"forward {number}", returned)
                    handles.append(module.register_forward_hook(hook, **options))
                case 2:
                    options["with_kwargs"] = True
                    hook = noting(log, f"forward with kwargs {number}", returned)
                    handles.append(module.register_forward_hook(hook, **options))
                case 3:
                    scaled = returned and (lambda grads: (grads[0] * 3,))
                    hook = noting(log, f"backward pre {number}", scaled)
                    handles.append(module.register_full_backward_pre_hook(hook, **options))
                case 4:
                    scaled = returned and (lambda grads, _: (grads[0] - 1,))
                    hook = noting(log, f"backward {number}", scaled)
                    handles.append(module.register_full_backward_hook(hook, **options))
                case 5:
                    kept = noting(log, f"all {number}", returned)
                    handles.append(every.register_module_forward_hook(kept))
                case _ if draw.random() < 0.3:
                    hook = noting(log, f"raises {number}", ValueError("no"))
                    handles.append(module.register_forward_hook(hook, **options))
        x = filled(system, 2, 3, grad=True)
        try:
            try:
                net(x).sum().backward()
            except ValueError:
                log.append("raised")
            for handle in handles[::2]:
                handle.remove()
            x.grad = None
            net(x).sum().backward()
        finally:
            for handle in handles:
                handle.remove()
        return [x.grad, [p.grad for p in net.parameters()]]

    peer.script(script)


# -- forward -------------------------------------------------------------------------------------


def test_a_pre_hook_replaces_arguments_and_keywords(peer: Any) -> None:
    def script(system: Any, log: Log) -> Any:
        class Scaled(system.nn.Module):  # type: ignore[misc]
            def forward(self, x: Any, by: float = 2.0) -> Any:
                return x * by

        net, x = Scaled(), filled(system, 3)
        results = []
        for returned in (None, lambda args: (args[0] + 1,), lambda args: args[0] + 2):
            with net.register_forward_pre_hook(noting(log, "pre", returned)):
                results.append(net(x, by=3.0))
        changed = lambda args, kwargs: (args, {"by": 5.0})  # noqa: E731
        for returned in (None, changed):
            with net.register_forward_pre_hook(noting(log, "kw", returned), with_kwargs=True):
                results.append(net(x, by=3.0))
        with net.register_forward_hook(noting(log, "after"), with_kwargs=True):
            results.append(net(x, by=3.0))
        return results

    peer.script(script)


@pytest.mark.parametrize("returned", [3, (3,), [1, 2], (1, 2, 3)], ids=str)
def test_a_pre_hook_with_keywords_returns_a_pair(peer: Any, returned: Any) -> None:
    def script(system: Any, log: Log) -> Any:
        net = system.nn.ReLU()
        net.register_forward_pre_hook(lambda *_: returned, with_kwargs=True)
        return net(filled(system, 2))

    assert type(peer.script(script)[1]) is RuntimeError


@pytest.mark.parametrize("where", ["forward", "pre", "hook"])
def test_hooks_that_are_always_called(peer: Any, where: str) -> None:
    def script(system: Any, log: Log) -> Any:
        class Net(system.nn.Module):  # type: ignore[misc]
            def forward(self, x: Any) -> Any:
                if where == "forward":
                    raise KeyError("forward")
                return x * 2

        net, every = Net(), system.nn.modules.module
        if where == "pre":
            net.register_forward_pre_hook(noting(log, "pre", ValueError("pre")))
        net.register_forward_hook(noting(log, "first"))
        net.register_forward_hook(noting(log, "always"), always_call=True)
        if where == "hook":
            net.register_forward_hook(noting(log, "raises", ValueError("hook")), always_call=True)
        net.register_forward_hook(noting(log, "kw"), always_call=True, with_kwargs=True)
        net.register_forward_hook(noting(log, "late", ValueError("late")), always_call=True)
        net.register_forward_hook(noting(log, "last"))
        with every.register_module_forward_hook(noting(log, "all"), always_call=True):
            return net(filled(system, 2))

    peer.script(script)


def test_a_hook_that_raises_leaves_the_module_usable(peer: Any) -> None:
    def script(system: Any, log: Log) -> Any:
        net, x = two_layers(system), filled(system, 2, 3, grad=True)
        kinds = ("forward_pre", "forward", "full_backward_pre", "full_backward")
        for kind in kinds:
            hook = noting(log, kind, ValueError(kind))
            handle = getattr(net[0], f"register_{kind}_hook")(hook)
            try:
                net(x).sum().backward()
            except ValueError as error:
                log.append(str(error))
            handle.remove()
            net.zero_grad()
            x.grad = None
            net(x).sum().backward()
            log.append([x.grad, net[0].weight.grad])
        return None

    peer.script(script)


def test_hooks_that_take_themselves_off(peer: Any) -> None:
    def script(system: Any, log: Log) -> Any:
        net, handles = system.nn.ReLU(), []

        def once(module: Any, args: Any, output: Any) -> None:
            log.append("once")
            handles[0].remove()

        handles.append(net.register_forward_hook(once))
        net.register_forward_hook(noting(log, "stays"))
        for _ in range(2):
            net(filled(system, 2))
        handles[0].remove()
        return list(net._forward_hooks.values()) == []

    peer.script(script)


# -- full backward hooks -------------------------------------------------------------------------


def both_inputs(system: Any) -> Any:
    class Both(system.nn.Module):  # type: ignore[misc]
        def forward(self, a: Any, b: Any, c: Any = None) -> Any:
            return a * 2, b * 3, "text"

    return Both()


def ints(system: Any) -> Any:
    return system.tensor([1, 2, 3])


ARGUMENTS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "both need gradients": lambda s: (filled(s, 3, grad=True), filled(s, 3, grad=True)),
    "the first does": lambda s: (filled(s, 3, grad=True), filled(s, 3)),
    "the second does": lambda s: (filled(s, 3), filled(s, 3, grad=True)),
    "none does": lambda s: (filled(s, 3), filled(s, 3)),
    "one and the same": lambda s: (filled(s, 3, grad=True),) * 2,
    "an integer": lambda s: (filled(s, 3, grad=True), ints(s)),
    "a further number": lambda s: (filled(s, 3, grad=True), filled(s, 3), 5),
    "a further list": lambda s: (filled(s, 3), filled(s, 3), [filled(s, 3, grad=True)]),
}


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("case", ARGUMENTS)
def test_what_full_backward_hooks_see(peer: Any, case: str, used: tuple[int, ...]) -> None:
    def script(system: Any, log: Log) -> Any:
        net = both_inputs(system)
        net.register_full_backward_hook(noting(log, "backward"))
        net.register_full_backward_pre_hook(noting(log, "pre"))
        arguments = ARGUMENTS[case](system)
        outputs = net(*arguments)
        log.append([(x.requires_grad, x.is_leaf) for x in outputs[:2]])
        total = sum(outputs[i].sum() for i in used)
        if total.requires_grad:
            total.backward()
        return [x.grad for x in arguments[:2]]

    peer.script(script)


def test_hooks_with_chosen_inputs_and_higher_orders(peer: Any) -> None:
    def script(system: Any, log: Log) -> Any:
        net = both_inputs(system)
        net.register_full_backward_hook(noting(log, "backward"))
        grad = system.autograd.grad
        a, b = filled(system, 3, grad=True), filled(system, 3, start=5, grad=True)
        results = [grad(net(a, b)[0].sum(), [a])]
        results.append(grad(net(a, b)[1].sum(), [a, b], allow_unused=True))
        outputs = net(a, b)
        results.append(grad(outputs[0].sum() + outputs[1].sum(), [outputs[0]]))
        outputs = net(a, b)
        (first,) = grad((outputs[0] ** 3).sum(), [a], create_graph=True)
        results.append(grad(first.sum(), [a]))
        outputs = net(a, b)
        outputs[1].sum().backward(retain_graph=True)
        outputs[1].sum().backward()
        return [results, a.grad, b.grad]

    peer.script(script)


def test_replaced_gradients(peer: Any) -> None:
    def script(system: Any, log: Log) -> Any:
        net, x = linear(system, 3, 2), filled(system, 2, 3, grad=True)
        net.register_full_backward_pre_hook(noting(log, "pre", lambda grads: (grads[0] * 2,)))
        net.register_full_backward_hook(noting(log, "1", lambda grads, _: (grads[0] + 1,)))
        net.register_full_backward_hook(noting(log, "2", lambda grads, _: [grads[0] * 10]))
        net(x).sum().backward()
        return [x.grad, net.weight.grad, net.bias.grad]

    peer.script(script)


@pytest.mark.parametrize(
    ("kind", "returned"),
    [
        ("full_backward", lambda grads, _: (grads[0], grads[0])),
        ("full_backward", lambda grads, _: 3),
        ("full_backward", lambda grads, _: (grads[0].double(),)),
        ("full_backward", lambda grads, _: (grads[0].sum(),)),
        ("full_backward", lambda grads, _: (None,)),
        ("full_backward_pre", lambda grads: (grads[0], grads[0])),
        ("full_backward_pre", lambda grads: (grads[0].double(),)),
    ],
)
def test_wrong_gradients(peer: Any, kind: str, returned: Any) -> None:
    def script(system: Any, log: Log) -> Any:
        net, x = linear(system, 3, 2), filled(system, 2, 3, grad=True)
        getattr(net, f"register_{kind}_hook")(noting(log, kind, returned))
        net(x).sum().backward()
        return x.grad

    peer.script(script)


def test_without_inputs_that_need_gradients(peer: Any) -> None:
    def script(system: Any, log: Log) -> Any:
        net = linear(system, 3, 2)
        results = []
        for returned in (None, (None,), (filled(system, 1),)):
            with net.register_full_backward_hook(noting(log, "backward", returned)):
                net.zero_grad()
                try:
                    net(filled(system, 2, 3)).sum().backward()
                except RuntimeError:
                    log.append("RuntimeError")
                results.append(net.weight.grad)
        return results

    peer.script(script)


def test_the_views_of_full_backward_hooks(peer: Any) -> None:
    def script(system: Any, log: Log) -> Any:
        net, x = system.nn.Identity(), filled(system, 3, grad=True)
        net.register_full_backward_hook(noting(log, "backward"))
        y = net(x)
        log.append([y is x, y.is_leaf, y.data_ptr() == x.data_ptr(), y.grad_fn is None])
        with system.no_grad():
            y.add_(1)
            log.append(x)
            z = net(x)
            log.append([z is x, z.requires_grad])
        for change in (lambda: net(x).add_(1), lambda: system.nn.ReLU(inplace=True)(net(x))):
            try:
                change()
            except RuntimeError:
                log.append("RuntimeError")
        net(x * 2).sum().backward()
        return x.grad

    peer.script(script)


@pytest.mark.parametrize("kind", ["dict", "list", "nested", "number"])
def test_results_that_are_no_tensors(peer: Any, kind: str) -> None:
    def script(system: Any, log: Log) -> Any:
        class Net(system.nn.Module):  # type: ignore[misc]
            def forward(self, x: Any) -> Any:
                y = x * 2
                return {"dict": {"y": y}, "list": [y], "nested": ((y, x),), "number": 3}[kind]

        net, x = Net(), filled(system, 3, grad=True)
        net.register_full_backward_hook(noting(log, "backward"))
        result = net(x)
        while isinstance(result, dict | list | tuple):
            result = result["y"] if isinstance(result, dict) else result[0]
        if kind != "number":
            result.sum().backward()
        return x.grad

    peer.script(script)


# -- the old kind --------------------------------------------------------------------------------


def composite(system: Any) -> Any:
    class Composite(system.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, y: Any) -> Any:
            return (x.exp() + y).tanh() * y

    return Composite()


def test_old_hooks_see_the_last_operation_of_a_composite_module(peer: Any) -> None:
    def script(system: Any, log: Log) -> Any:
        net = composite(system)
        net.register_backward_hook(noting(log, "old"))
        x, y = filled(system, 3, grad=True), filled(system, 3, start=2, grad=True)
        net(x, y).sum().backward()
        return [x.grad, y.grad]

    peer.script(script)


def test_old_and_full_hooks_on_two_layers(peer: Any) -> None:
    def script(system: Any, log: Log) -> Any:
        fc1, fc2 = linear(system, 3, 4), linear(system, 4, 1)
        fc1.register_full_backward_hook(noting(log, "fc1"))
        fc2.register_full_backward_hook(noting(log, "fc2"))
        x = filled(system, 1, 3, grad=True)
        hidden = fc1(x)
        hidden.register_hook(lambda grad: log.append(("hidden", grad)))
        fc2(hidden).sum().backward()
        for layer in (fc1, fc2):
            layer._backward_hooks.clear()
            layer._is_full_backward_hook = None
            layer.register_backward_hook(noting(log, "old"))
        fc2(fc1(x)).sum().backward()
        return [x.grad, fc1.weight.grad, fc2.bias.grad]

    peer.script(script)


def test_old_hooks_replace_gradients(peer: Any) -> None:
    def script(system: Any, log: Log) -> Any:
        net, x = system.nn.Tanh(), filled(system, 3, grad=True)
        net.register_backward_hook(noting(log, "old", lambda grads, _: (grads[0] * 2,)))
        net(x * 1.0).sum().backward()
        return x.grad

    peer.script(script)


@pytest.mark.parametrize("kind", ["dict", "list", "two", "list argument"])
def test_old_hooks_warn_of_what_they_miss(peer: Any, kind: str) -> None:
    def script(system: Any, log: Log) -> Any:
        class Net(system.nn.Module):  # type: ignore[misc]
            def forward(self, inputs: Any) -> Any:
                x = inputs[0] if kind == "list argument" else inputs
                y = x.tanh()
                return {"dict": {"y": y}, "list": [y], "two": (y, x.exp())}.get(kind, y)

        net, x = Net(), filled(system, 3, grad=True)
        net.register_backward_hook(noting(log, "old"))
        result = net([x] if kind == "list argument" else x)
        while isinstance(result, dict | list | tuple):
            result = result["y"] if isinstance(result, dict) else result[0]
        result.sum().backward()
        return x.grad

    peer.script(script)


@pytest.mark.parametrize("first", ["backward", "full_backward"])
def test_old_and_full_hooks_do_not_mix(peer: Any, first: str) -> None:
    def script(system: Any, log: Log) -> Any:
        net, every = system.nn.ReLU(), system.nn.modules.module
        kinds = ("backward", "full_backward")
        for kind in (first, *kinds):
            for register in (
                getattr(net, f"register_{kind}_hook"),
                getattr(every, f"register_module_{kind}_hook"),
            ):
                try:
                    register(lambda *_: None).remove()
                    log.append((kind, "registered"))
                except RuntimeError as error:
                    log.append((kind, str(error)))
        return net._is_full_backward_hook

    # The kind of the hooks of all modules stays once it is set, in both systems.
    for system in (peer.torch, frontend):
        _forget_the_kind(system)
    peer.script(script)
    for system in (peer.torch, frontend):
        _forget_the_kind(system)


def _forget_the_kind(system: Any) -> None:
    if system is frontend:
        GLOBAL.backward_is_full = None
    else:
        system.nn.modules.module._global_is_full_backward_hook = None


# -- registration --------------------------------------------------------------------------------


def test_registration_hooks(peer: Any) -> None:
    def script(system: Any, log: Log) -> Any:
        nn, every = system.nn, system.nn.modules.module

        def note(kind: str) -> Any:
            return lambda module, name, value: log.append((kind, name, type(value).__name__))

        handles = [
            every.register_module_parameter_registration_hook(note("parameter")),
            every.register_module_buffer_registration_hook(note("buffer")),
            every.register_module_module_registration_hook(note("module")),
        ]
        x, net = filled(system, 2), nn.Module()
        net.register_parameter("p", None)
        net.register_buffer("b", None)
        net.add_module("m", None)
        net.p = nn.Parameter(x)
        net.p = None
        net.b = x
        net.b = None
        net.m = nn.ReLU()
        net.m = None
        net.q, net.c, net.r, net.plain = nn.Parameter(x), nn.Buffer(x), nn.ReLU(), 3
        nn.Sequential(nn.ReLU(), nn.Linear(2, 2))
        for handle in handles:
            handle.remove()
        nn.Linear(2, 2)
        return None

    peer.script(script)


def test_registration_hooks_replace(peer: Any) -> None:
    def script(system: Any, log: Log) -> Any:
        nn, every = system.nn, system.nn.modules.module
        twice = lambda module, name, value: nn.Parameter(value.detach() * 2)  # noqa: E731
        with every.register_module_parameter_registration_hook(twice):
            net = nn.Module()
            net.weight = nn.Parameter(filled(system, 3))
        return net.weight

    peer.script(script)

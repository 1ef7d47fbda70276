"""Hooks of Modules: what they see and change, and what becomes of them in compiled code."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import weakref
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.nn.modules import module as every
from frontend.nn.modules.global_hooks import GLOBAL
from graphc.errors import TraceError


@pytest.fixture(scope="module", autouse=True)
def what_was_there_before() -> Iterator[None]:
    """What all earlier tests left alive is set aside: a trace with hooks collects garbage, and
    would walk through that for half a second each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def no_hooks_of_all_modules() -> Iterator[None]:
    yield
    assert not any(GLOBAL.running())
    GLOBAL.backward_is_full = None


def net() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def inputs() -> Any:
    return torch.tensor(np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3))


def gradients(model: Any, run: Callable[..., Any]) -> list[Any]:
    """The gradients of input and parameters of `run(x).sum()`."""
    x = inputs().requires_grad_()
    model.zero_grad()
    run(x).square().sum().backward()
    return [np.array(tensor.grad) for tensor in (x, *model.parameters())]


def agree(left: list[Any], right: list[Any]) -> None:
    for x, y in zip(left, right, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


# -- eager ---------------------------------------------------------------------------------------


def test_the_order_of_hooks() -> None:
    events: list[str] = []
    model, x = nn.Tanh(), torch.ones(2, requires_grad=True)

    def note(name: str) -> Callable[..., None]:
        return lambda *_: events.append(name)

    handles = [
        model.register_forward_hook(note("forward 1")),
        model.register_forward_hook(note("forward 0"), prepend=True),
        model.register_forward_pre_hook(note("pre")),
        model.register_full_backward_hook(note("backward")),
        model.register_full_backward_pre_hook(note("backward pre")),
        every.register_module_forward_hook(note("all forward")),
        every.register_module_forward_pre_hook(note("all pre")),
        every.register_module_full_backward_hook(note("all backward")),
        every.register_module_full_backward_pre_hook(note("all backward pre")),
    ]
    model(x).sum().backward()
    forward = ["all pre", "pre", "all forward", "forward 0", "forward 1"]
    backward = ["all backward pre", "backward pre", "all backward", "backward"]
    assert events == [*forward, *backward]
    for handle in handles:
        handle.remove()
    events.clear()
    model(x).sum().backward()
    assert not events


def test_full_backward_hooks_scale_gradients() -> None:
    model = net()
    plain = gradients(model, model)
    with model[2].register_full_backward_pre_hook(lambda _, grads: (grads[0] * 2,)):
        scaled = gradients(model, model)
    agree(scaled, [2 * grad for grad in plain])
    with model.register_full_backward_hook(lambda _, grads, __: grads[0] * 0):
        stopped = gradients(model, model)
    agree(stopped, [plain[0] * 0, *plain[1:]])


def test_named_tuples_keep_their_type() -> None:
    Pair = namedtuple("Pair", "left right")

    class Net(nn.Module):
        def forward(self, x: Any) -> Any:
            return Pair(x * 2, x * 3)

    model, seen = Net(), []
    model.register_full_backward_hook(lambda _, grads, outputs: seen.append(outputs))
    result = model(torch.ones(1, requires_grad=True))
    assert type(result) is Pair
    result.right.sum().backward()
    assert seen[0][0] is None and seen[0][1].tolist() == [1.0]


def test_a_graph_with_backward_hooks_is_freed_without_the_collector() -> None:
    model = nn.Tanh()
    model.register_full_backward_hook(lambda *_: None)
    gc.collect()
    gc.disable()
    try:
        result = model(torch.ones(2, requires_grad=True) * 1)
        node = weakref.ref(result.grad_fn)
        del result
        assert node() is None
    finally:
        gc.enable()


def test_inputs_and_outputs_of_full_backward_hooks_are_not_changed_in_place() -> None:
    model = nn.Identity()
    model.register_full_backward_hook(lambda *_: None)
    result = model(torch.ones(2, requires_grad=True) * 1)
    assert result.grad_fn.name() == "BackwardHookFunctionBackward"
    with pytest.raises(RuntimeError, match=r"is a view and is being modified inplace.*clone"):
        result.add_(1)
    with torch.no_grad():
        result.add_(1)
    assert result.tolist() == [2.0, 2.0]


def test_a_module_without_gradients_of_inputs_warns() -> None:
    model = net()
    model.register_full_backward_hook(lambda *_: None)
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        model(inputs()).sum().backward()


def test_old_hooks_see_the_last_operation() -> None:
    seen: list[Any] = []

    class Composite(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x.exp() * y

    model = Composite()
    model.register_backward_hook(lambda _, grads, outputs: seen.extend((grads, outputs)))
    x, y = torch.zeros(1, requires_grad=True), torch.full((1,), 3.0, requires_grad=True)
    with pytest.warns(FutureWarning, match="the forward contains multiple autograd Nodes"):
        result = model(x, y)
    result.backward(torch.full((1,), 2.0))
    assert [g.tolist() for g in seen[0]] == [[6.0], [2.0]]
    assert seen[1][0].tolist() == [2.0]
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full"):
        model.register_full_backward_hook(lambda *_: None)


def test_modules_with_hooks_are_copied_and_pickled() -> None:
    model = net()
    model[0].register_forward_hook(doubled)
    expected = model(inputs()).tolist()
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin(inputs()).tolist() == expected
        twin[0]._forward_hooks.clear()
        assert twin(inputs()).tolist() != expected
    assert model(inputs()).tolist() == expected


def doubled(module: Any, args: Any, output: Any) -> Any:
    return output * 2


# -- compiled: traced in -------------------------------------------------------------------------


def squared(module: Any, args: Any, output: Any) -> Any:
    return output * output + args[0].sum()


def masked_in_place(module: Any, args: Any, output: Any) -> None:
    output[:, 0] = 0.0


def shape_reader(module: Any, args: Any, output: Any) -> Any:
    return output.reshape(-1).reshape(output.shape) if output.shape[0] == 2 else None


def doubled_input(module: Any, args: Any) -> Any:
    return (args[0] * 2,)


TRACED: dict[str, Any] = {
    "forward": lambda model: model[0].register_forward_hook(doubled),
    "with saved operands": lambda model: model[2].register_forward_hook(squared),
    "shapes": lambda model: model[1].register_forward_hook(shape_reader),
    "in place": lambda model: model[2].register_forward_hook(masked_in_place),
    "pre": lambda model: model[1].register_forward_pre_hook(doubled_input),
    "with keywords": lambda model: model[0].register_forward_pre_hook(
        lambda module, args, kwargs: ((args[0] + 1,), kwargs), with_kwargs=True
    ),
    "backward": lambda model: model[1].register_full_backward_hook(
        lambda module, grads, outputs: (grads[0] * outputs[0].sum(),)
    ),
    "backward pre": lambda model: model.register_full_backward_pre_hook(
        lambda module, grads: (grads[0].clamp(-0.1, 0.1),)
    ),
    "all modules": lambda model: every.register_module_forward_hook(doubled),
    "a partial": lambda model: model[0].register_forward_hook(Scaling(3.0)),
    "a tensor hook": lambda model: model[0].register_forward_hook(with_a_tensor_hook),
}


def with_a_tensor_hook(module: Any, args: Any, output: Any) -> None:
    output.register_hook(lambda grad: grad * output.sum())


class Scaling:
    """A hook that is an object."""

    def __init__(self, by: float):
        self.by = by

    def __call__(self, module: Any, args: Any, output: Any) -> Any:
        return output * self.by


@pytest.mark.sampled(6)
@pytest.mark.parametrize("case", TRACED)
def test_hooks_that_read_or_replace_are_traced_in(case: str) -> None:
    model = net()
    with TRACED[case](model):
        expected = gradients(model, model)
        agree(gradients(model, torch.compile(model)), expected)

        def step(x: Any) -> None:
            model.zero_grad()
            model(x).square().sum().backward()

        torch.compile(step)(inputs())
        agree([np.array(p.grad) for p in model.parameters()], expected[1:])


def test_old_backward_hooks_are_traced_in() -> None:
    model = nn.Tanh()
    model.register_backward_hook(lambda _, grads, __: (grads[0] * 3,))

    def run(x: Any) -> Any:
        return model(x * 1.0)

    agree(gradients(model, torch.compile(run)), gradients(model, run))


def test_registering_and_removing_traces_again() -> None:
    model = net()
    compiled = torch.compile(model)
    plain = compiled(inputs()).tolist()
    handle = model[2].register_forward_hook(doubled)
    assert compiled(inputs()).tolist() == [[2 * value for value in row] for row in plain]
    handle.remove()
    assert compiled(inputs()).tolist() == plain
    with every.register_module_forward_hook(doubled):
        assert compiled(inputs()).tolist() != plain
    assert compiled(inputs()).tolist() == plain
    history = compiled.explain()
    assert "Linear._forward_hooks changed: 0 items became 1" in history
    assert "a hook of all modules was registered or removed" in history
    assert len(compiled.specializations) == 3


def test_plain_variables_of_a_hook_are_guarded() -> None:
    model, scale = nn.Identity(), 2.0
    model.register_forward_hook(lambda module, args, output: output * scale)
    compiled = torch.compile(model)
    assert compiled(torch.ones(1)).tolist() == [2.0]
    scale = 3.0
    assert compiled(torch.ones(1)).tolist() == [3.0]


def test_plain_variables_of_a_backward_hook_are_guarded() -> None:
    model, scale = nn.Identity(), 2.0
    model.register_full_backward_hook(lambda module, grads, outputs: (grads[0] * scale,))
    compiled = torch.compile(model)

    def gradient() -> Any:
        x = torch.ones(1, requires_grad=True)
        compiled(x * 1).sum().backward()
        return x.grad.tolist()

    assert gradient() == [2.0]
    scale = 3.0
    assert gradient() == [3.0]


def test_tap_hands_values_out_of_a_hook() -> None:
    seen: list[Any] = []
    model = net()

    def hook(module: Any, args: Any, output: Any) -> None:
        torch.tap(output, lambda value: seen.append(value.tolist()))

    handle = model[0].register_forward_hook(hook)
    compiled = torch.compile(model)
    for _ in range(2):
        compiled(inputs())
    expected = model[0](inputs()).tolist()
    assert len(seen) == 3 and seen[0] == seen[1]
    np.testing.assert_allclose(seen[0], expected, rtol=1e-6)
    handle.remove()


def test_tap_in_the_backward_of_a_compiled_function_is_refused() -> None:
    model = nn.Tanh()
    model.register_full_backward_hook(lambda _, grads, __: torch.tap(grads[0], print) and None)
    with pytest.raises(TraceError, match=r"tap\(\) in the backward .*(\n.*)compile the whole"):
        torch.compile(model, fullgraph=True)(torch.ones(2, requires_grad=True))


# -- compiled: refused ---------------------------------------------------------------------------

KEPT: list[Any] = []
BY_NAME: dict[str, Any] = {}


class Holder:
    """Somewhere to put things."""

    kept: Any = None


HOLDER = Holder()


def into_a_list(module: Any, args: Any, output: Any) -> None:
    KEPT.append(output)


def into_a_dict(module: Any, args: Any, output: Any) -> None:
    BY_NAME["output"] = output.detach()


def into_an_object(module: Any, args: Any, output: Any) -> None:
    HOLDER.kept = output.detach().clone()


def a_mean(module: Any, args: Any, output: Any) -> None:
    KEPT.append(output.mean())


def an_input(module: Any, args: Any, output: Any) -> None:
    KEPT.append(args[0])


def all_inputs(module: Any, args: Any, output: Any) -> None:
    KEPT.append(args)


def in_a_closure(module: Any, args: Any, output: Any) -> None:
    KEPT.append(lambda: output)


def in_a_generator(module: Any, args: Any, output: Any) -> None:
    KEPT.append(item for item in [output])


def and_returned(module: Any, args: Any, output: Any) -> Any:
    KEPT.append(output)
    return output


def a_nested_list(module: Any, args: Any, output: Any) -> None:
    KEPT.append({"deep": [(output * 2,)]})


STORING = [
    into_a_list, into_a_dict, into_an_object, a_mean, an_input, all_inputs, in_a_closure,
    in_a_generator, and_returned, a_nested_list,
]  # fmt: skip


@pytest.fixture
def nothing_kept() -> Iterator[None]:
    yield
    KEPT.clear()
    BY_NAME.clear()
    HOLDER.kept = None


@pytest.mark.parametrize("where", [0, 1])
@pytest.mark.parametrize("hook", STORING, ids=lambda hook: hook.__name__)
def test_a_hook_that_keeps_a_tensor_is_named(hook: Any, where: int, nothing_kept: None) -> None:
    model = net()
    handle = model[where].register_forward_hook(hook)
    with pytest.raises(TraceError) as caught:
        torch.compile(model, fullgraph=True)(inputs())
    text = str(caught.value)
    assert f"the hook {hook.__name__} of {type(model[where]).__name__} keeps a tensor" in text
    assert "frontend.tap(t, fn)" in text and "test_module_hooks.py" in text
    KEPT.clear()
    handle.remove()
    model(inputs())


class Keeper:
    """A hook that keeps what it saw in itself."""

    kept: Any = None

    def __call__(self, module: Any, args: Any, output: Any) -> None:
        self.kept = output


def appending(items: list[Any], module: Any, args: Any, output: Any) -> None:
    items.append(output)


OTHERS: dict[str, tuple[str, Any, str]] = {
    "pre": ("forward_pre", lambda module, args: KEPT.append(args[0] * 2), "<lambda>"),
    "backward": ("full_backward", lambda _, grads, __: KEPT.append(grads[0]), "<lambda>"),
    "backward pre": ("full_backward_pre", lambda _, grads: KEPT.append(grads), "<lambda>"),
    "an object": ("forward", Keeper(), "Keeper.__call__"),
    "a method": ("forward", Keeper().__call__, "Keeper.__call__"),
    "a partial": ("forward", functools.partial(appending, KEPT), "appending"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_hooks_that_keep_tensors(case: str, nothing_kept: None) -> None:
    kind, hook, name = OTHERS[case]
    model = net()
    getattr(model[1], f"register_{kind}_hook")(hook)
    with pytest.raises(TraceError, match=f"{name} of Tanh keeps a tensor that is being traced"):
        torch.compile(model, fullgraph=True)(inputs().requires_grad_())


def test_a_hook_that_sets_an_attribute() -> None:
    model = net()

    def hook(module: Any, args: Any, output: Any) -> None:
        module.seen = output

    model[0].register_forward_hook(hook)
    compiled = torch.compile(model)
    for scale in (1, 2, 3):
        compiled(inputs() * scale)
        seen = model[0].seen
        model(inputs() * scale)
        agree([seen.detach()], [model[0].seen.detach()])
        assert seen.requires_grad


@pytest.mark.parametrize(
    "hook",
    [
        lambda module, args, output: print(output),
        lambda module, args, output: KEPT.append(output.sum().item()),
        lambda module, args, output: KEPT.append(output.detach().numpy()),
        lambda module, args, output: KEPT.append(f"{output.mean():.3f}"),
    ],
    ids=["print", "item", "numpy", "format"],
)
def test_a_hook_that_reads_values(hook: Any) -> None:
    model = net()
    model[0].register_forward_hook(hook)
    with pytest.raises(TraceError, match=r"frontend.tap\(t, fn\)"):
        torch.compile(model, fullgraph=True)(inputs())
    assert not KEPT


@pytest.mark.parametrize("kind", ["forward_pre", "forward", "full_backward_pre", "full_backward"])
def test_a_hook_that_raises_leaves_the_module_usable(kind: str) -> None:
    def raising(*_: Any) -> None:
        raise ValueError("from the hook")

    model = net()
    expected, compiled = gradients(model, model), torch.compile(model)
    with getattr(model[1], f"register_{kind}_hook")(raising):
        for run in (model, compiled):
            with pytest.raises(ValueError, match="from the hook"):
                gradients(model, run)
    for run in (model, compiled):
        agree(gradients(model, run), expected)


def test_a_hook_registered_in_a_trace() -> None:
    model = net()

    @torch.compile(fullgraph=True)
    def run(x: Any) -> Any:
        model[0].register_forward_hook(doubled)
        return model(x)

    with pytest.raises(TraceError, match="a hook is registered while tracing"):
        run(inputs())
    assert not model[0]._forward_hooks


def test_a_hook_registered_and_removed_in_a_trace() -> None:
    model = net()

    def run(x: Any) -> Any:
        seen = []
        with model[0].register_forward_hook(lambda module, args, output: seen.append(output)):
            result = model(x)
        handle = model[1].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
        result = result + model(x)
        handle.remove()
        return result + seen[0].sum()

    compiled = torch.compile(run)
    for scale in (1, 2):
        agree([compiled(inputs() * scale).detach()], [run(inputs() * scale).detach()])
    assert len(compiled.specializations) == 1 and not model[0]._forward_hooks


def test_what_a_cycle_alone_holds_is_not_kept() -> None:
    def hook(module: Any, args: Any, output: Any) -> Any:
        ring: list[Any] = [output * 2]
        ring.append(ring)
        return output + 1

    model = net()
    model[0].register_forward_hook(hook)
    expected = model(inputs())
    agree([torch.compile(model)(inputs()).detach()], [expected.detach()])


def test_buffers_updated_by_a_hook_are_state() -> None:
    model = nn.Linear(3, 2)
    model.register_buffer("mean", torch.zeros(2))

    def hook(module: Any, args: Any, output: Any) -> None:
        with torch.no_grad():
            module.mean.mul_(0.5).add_(output.mean(0))

    model.register_forward_hook(hook)
    twin = copy.deepcopy(model)
    compiled = torch.compile(twin)
    for _ in range(3):
        model(inputs())
        compiled(inputs())
    np.testing.assert_allclose(model.mean, twin.mean, rtol=1e-6)
    assert len(compiled.specializations) == 1


@dataclass
class Output:
    """What some models return."""

    logits: Any
    hidden: Any = None


def test_results_in_dataclasses(nothing_kept: None) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            return Output(self.layer(x))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def forward(self, x: Any) -> Any:
            return self.net(x).logits

    def replacing(module: Any, args: Any, output: Any) -> Any:
        return Output(output.logits * 2, output.logits)

    def storing(module: Any, args: Any, output: Any) -> None:
        KEPT.append(output.logits)

    model = Model()
    with model.net.register_forward_hook(replacing):
        agree(gradients(model, torch.compile(model, fullgraph=True)), gradients(model, model))
    model.net.register_forward_hook(storing)
    with pytest.raises(TraceError, match="storing of Net keeps a tensor"):
        torch.compile(model, fullgraph=True)(inputs())


def test_what_hooks_see_inside_custom_functions_and_nested_modules() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.plain = x
            return x * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * 2 * x

    head = nn.Linear(4, 4)
    model = net()
    model[0].register_forward_hook(lambda module, args, output: Twice.apply(head(output)))
    agree(gradients(model, torch.compile(model)), gradients(model, model))

"""Types with __torch_function__: subclasses of Tensor, other objects, modes."""

from __future__ import annotations

import copy
import inspect
import subprocess
import sys
from typing import Any

import pytest

import frontend as torch
from frontend import overrides
from frontend.nn import functional as F
from frontend.overrides import TorchFunctionMode
from frontend.overrides.interception import intercept_functions

X = torch.ones(2)


class Logged(torch.Tensor):
    log: list[str] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.log.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


class Plain(torch.Tensor):
    pass


class Diagonal:
    """No tensor: a value on the diagonal of an n x n matrix."""

    def __init__(self, n: int, value: float):
        self.n, self.value = n, value

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.mean:
            return args[0].value / args[0].n
        return NotImplemented


def logged() -> Any:
    Logged.log.clear()
    return torch.tensor([1.0, 2.0, 3.0]).as_subclass(Logged)


CALLS = {
    "add": lambda x: [x + 1, 1 + x, torch.ones(3) + x, torch.add(x, 1), x.add(1), x.add_(1)],
    "relu": lambda x: [torch.relu(x), F.relu(x), x.relu()],
    "cat": lambda x: [torch.cat([torch.ones(3), x])],
    "linear": lambda x: [F.linear(x, torch.ones(2, 3))],
    "getitem": lambda x: [x[0], x[:2]],
    "max": lambda x: list(x[None].max(0))[:1],
    "unbind": lambda x: list(x.unbind()) + list(x),
    "detach": lambda x: [x.detach()],
}


@pytest.mark.parametrize("name", CALLS)
def test_results_of_a_subclass_are_of_it(name: str) -> None:
    x = logged()
    for result in CALLS[name](x):
        assert type(result) is Logged
    assert any(name in called for called in Logged.log)


def test_properties_and_questions_are_asked_too() -> None:
    x = logged()
    assert (x.shape, x.dtype, x.size(0), x.dim()) == ((3,), torch.float32, 3, 1)
    assert Logged.log == ["__get__", "__get__", "size", "dim"]
    Logged.log.clear()
    x.requires_grad = True
    assert Logged.log == ["__set__"] and x.is_leaf


def test_what_the_default_calls_is_not_asked_again() -> None:
    x = logged()
    F.layer_norm(x, (3,))
    assert Logged.log == ["layer_norm"]


def test_gradients_flow_through_a_subclass() -> None:
    w = torch.ones(3, requires_grad=True)
    loss = (w.as_subclass(Plain) * torch.tensor([1.0, 2.0, 3.0])).sum()
    assert type(loss) is Plain
    loss.backward()
    assert w.grad is not None and w.grad.tolist() == [1.0, 2.0, 3.0]


def test_as_subclass_shares_memory_and_refuses_other_types() -> None:
    x = torch.zeros(2)
    y = x.as_subclass(Plain)
    y.add_(1)
    assert x.tolist() == [1.0, 1.0] and type(copy.deepcopy(y)) is Plain
    with pytest.raises(TypeError, match="inherits from Tensor"):
        x.as_subclass(int)


class Placed(torch.Tensor):
    place: str

    def __new__(cls, data: torch.Tensor, place: str = "here") -> Any:
        made = torch.Tensor._make_subclass(cls, data)
        made.place = place
        return made


def test_a_class_may_make_its_own_tensors_in_new() -> None:
    x = torch.zeros(2)
    y = Placed(x, place="there")
    assert type(y) is Placed and y.place == "there"
    y.add_(1)
    assert x.tolist() == [1.0, 1.0]


class Described:
    """A base that comes ahead of Tensor and has a dict of its own."""

    def described_as(self, other: Any) -> Any:
        self.__dict__.update(other.__dict__)
        return self


class Image(Described, torch.Tensor):
    pass


def test_attributes_are_what_was_added() -> None:
    """Who copies the attributes of a tensor copies no value, type or history."""
    x = torch.arange(2.0).as_subclass(Image)
    x.name, x.size_of = "a", [1]
    y = (x * 2).described_as(x)
    assert y.tolist() == [0, 2] and y.__dict__ == x.__dict__ == {"name": "a", "size_of": [1]}
    assert y.size_of is x.size_of and vars(copy.copy(y)) == vars(copy.deepcopy(y)) == vars(x)
    plain = torch.ones(1)
    plain.__dict__ = y.__dict__
    del plain.__dict__["name"]
    plain.__dict__ |= {"more": 1}
    assert plain.__dict__.pop("more") == 1 and plain.__dict__.setdefault("b", 2) == plain.b == 2
    assert dir(plain).count("size_of") == 1 and not hasattr(plain, "name")
    with pytest.raises(AttributeError, match="'_value' belongs to the tensor"):
        plain.__dict__["_value"] = 3
    plain.__dict__.clear()
    assert plain.__dict__ == torch.nn.Parameter(plain).__dict__ == {} and plain.tolist() == [1]


def test_as_subclass_asks_nobody() -> None:
    x = logged()
    Logged.log.clear()
    assert type(x.as_subclass(torch.Tensor)) is torch.Tensor and Logged.log == []


def test_subclasses_that_do_not_know_each_other() -> None:
    x, y = logged(), torch.ones(3).as_subclass(Plain)
    with pytest.raises(TypeError, match=r"no implementation found for .*add.*Plain"):
        torch.add(x, y)


def test_a_derived_class_is_asked_before_its_base() -> None:
    class Derived(Plain):
        pass

    x, y = torch.ones(3).as_subclass(Plain), torch.ones(3).as_subclass(Derived)
    assert type(x + y) is type(y + x) is Derived


def test_parameters_take_no_part() -> None:
    p = torch.nn.Parameter(torch.ones(3))
    assert type(p + 1) is torch.Tensor
    assert not overrides.has_torch_function((p, torch.ones(1)))
    assert overrides.has_torch_function_unary(logged())
    assert overrides.has_torch_function_variadic(1, logged())


def test_an_object_that_is_no_tensor() -> None:
    intercept_functions()
    assert torch.mean(Diagonal(2, 6.0)) == 3.0
    assert overrides.is_tensor_like(Diagonal(1, 1.0)) and not overrides.is_tensor_like(1)
    with pytest.raises(TypeError, match=r"no implementation found for .*Diagonal"):
        torch.sum(Diagonal(2, 6.0))


def test_disabling() -> None:
    x = logged()
    with torch._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is torch.Tensor and x.shape == (3,)
        assert not overrides.has_torch_function((x,))
    assert Logged.log == []


class Noting(TorchFunctionMode):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_modes_see_functions_that_take_no_tensor() -> None:
    with Noting() as outer, Noting() as inner:
        torch.add(torch.zeros(3), 1)
        with torch._C.DisableTorchFunction():
            torch.zeros(1)
    assert inner.calls[:2] == ["zeros", "add"] and outer.calls[:2] == ["zeros", "add"]
    torch.zeros(1)
    assert len(inner.calls) == len(outer.calls)


def test_a_mode_is_left_when_it_raises() -> None:
    class Refusing(TorchFunctionMode):
        def __torch_function__(self, *_: Any) -> Any:
            raise LookupError("refused")

    with pytest.raises(LookupError, match="refused"), Refusing():
        torch.ones(1)
    assert torch.ones(1).tolist() == [1.0]


def test_functions_stay_what_they_are() -> None:
    before, signature = torch.relu, str(inspect.signature(torch.sum))
    intercept_functions()
    assert torch.relu is before and str(inspect.signature(torch.sum)) == signature
    assert "dim" in signature
    with pytest.raises(TypeError, match="unexpected keyword"):
        torch.sum(torch.ones(2), axes=3)


def test_warnings_name_the_callers_line() -> None:
    intercept_functions()
    for call in (lambda: F.mse_loss(torch.ones(2, 3), torch.ones(3)), lambda: F.softmax(X)):
        with pytest.warns(UserWarning) as caught:
            call()
        assert caught[0].filename == __file__


@pytest.mark.slow
def test_nothing_is_intercepted_before_it_is_asked_for() -> None:
    code = (
        "import frontend, frontend.overrides, frontend.fx\n"
        "from frontend.overrides import interception\n"
        "assert not interception._ORIGINALS\n"
        "from frontend import relu\n"
        "class Sub(frontend.Tensor): pass\n"
        "assert interception._ORIGINALS\n"
        "assert type(relu(frontend.ones(1).as_subclass(Sub))) is Sub"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_compiled_code_takes_a_subclass() -> None:
    x = torch.tensor([1.0, -2.0]).as_subclass(Plain)
    double = torch.compile(lambda a: torch.relu(a * 2))
    assert double(x).tolist() == [2.0, 0.0]


def test_names() -> None:
    assert overrides.resolve_name(torch.relu) == "torch.relu"
    assert overrides.resolve_name(torch.Tensor.view) == "torch.Tensor.view"
    assert overrides.resolve_name(torch.Tensor.shape.__get__) == "torch.Tensor.shape.__get__"
    assert overrides.resolve_name(len) is None
    assert torch.relu in overrides.get_overridable_functions()[torch]
    assert torch.zeros in overrides.get_ignored_functions()
    assert overrides.is_tensor_method_or_property(torch.Tensor.shape.__get__)
    assert torch.Tensor.grad.__get__ in overrides.get_default_nowrap_functions()


def test_functions_that_are_imported_late_have_names() -> None:
    """In a process that asked for no namespace before."""
    code = (
        "import frontend as torch\n"
        "from frontend import overrides\n"
        "assert overrides.resolve_name(torch.cdist) == 'torch.cdist'\n"
        "assert overrides.resolve_name(torch.median) == 'torch.median'\n"
        "assert overrides.resolve_name(torch.relu) == 'torch.relu'\n"
        "assert overrides.resolve_name(print) is None\n"
        "functions = overrides.get_overridable_functions()[torch]\n"
        "assert {torch.cdist, torch.median, torch.relu} <= set(functions)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

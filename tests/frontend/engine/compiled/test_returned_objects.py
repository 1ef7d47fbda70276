"""Objects of the user's classes that a compiled function makes and returns: each call makes its
own, of its own tensors and numbers, as eager mode does."""

from __future__ import annotations

import dataclasses
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.distributions import Categorical
from graphc.errors import TraceError


@dataclasses.dataclass
class Out:
    loss: Any = None
    logits: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    tensor: Any
    number: int


class Plain:
    """Compares by identity, and says who it is part of."""

    def __init__(self, tensor: Any, itself: bool = False):
        self.tensor = tensor
        self.items = [Out(tensor + 1)]
        self.itself = self if itself else None


def numbers(value: Any) -> Any:
    return [value.shape, *value.flatten().tolist()]


def both(function: Any, *arguments: Any) -> tuple[Any, Any]:
    """Of a second call of compiled code, and of eager mode."""
    compiled = torch.compile(function, fullgraph=True)
    others = [x + 5 if isinstance(x, torch.Tensor) else x * 2 for x in arguments]
    for each in (others, others):
        compiled(*each)
    return compiled(*arguments), function(*arguments)


X = torch.arange(3.0)


def test_a_dataclass_of_results() -> None:
    one, two = both(lambda x: Out(x.sum(), x * 2), X)
    assert type(one) is Out and numbers(one.loss) == numbers(two.loss)
    assert numbers(one.logits) == numbers(two.logits)


def test_an_argument_in_one_is_that_of_the_call() -> None:
    one, two = both(lambda x: Out(None, x), X)
    assert numbers(one.logits) == numbers(two.logits) and one.logits is X


@pytest.mark.parametrize("factor", [3, 2.5])
def test_numbers_of_the_call_in_one(factor: Any) -> None:
    one, two = both(lambda x, k: (x * k, Out(k * 2, x.shape[0])), X, factor)
    assert (one[1], type(one[1].loss)) == (two[1], type(two[1].loss))


def test_slots_lists_and_objects_inside() -> None:
    one, two = both(lambda x: [Slotted(x * 2, 3), {"a": Plain(x)}], X)
    assert (one[0].number, numbers(one[0].tensor)) == (3, numbers(two[0].tensor))
    assert numbers(one[1]["a"].items[0].loss) == numbers(two[1]["a"].items[0].loss)
    assert one[1]["a"].tensor is X and one[1]["a"].itself is None


def test_a_distribution() -> None:
    one, two = both(lambda x: Categorical(logits=x * 2), X)
    assert numbers(one.probs) == numbers(two.probs)


def test_an_empty_namespace() -> None:
    one, two = both(lambda x: SimpleNamespace(a=SimpleNamespace(), b=3), X)
    assert one == two


def test_gradients_go_through() -> None:
    x = torch.arange(3.0).requires_grad_()
    torch.compile(lambda x: Out((x * x).sum()))(x).loss.backward()
    assert x.grad is not None and x.grad.tolist() == [0, 2, 4]


def test_each_call_makes_its_own() -> None:
    compiled = torch.compile(lambda x: Out(x + 1))
    one, two = compiled(X), compiled(X + 1)
    assert one is not two and one.loss.tolist() == [1, 2, 3] and two.loss.tolist() == [2, 3, 4]


def test_a_container_that_is_handed_back_has_the_same_tensors() -> None:
    """But is another one, be it a dict, a list or a dataclass: frozen.md tells."""
    same, as_dict, as_list = Out(X), {"x": X}, [X]
    assert torch.compile(lambda out: out, fullgraph=True)(same).loss is X
    assert torch.compile(lambda out: out, fullgraph=True)(as_dict)["x"] is X
    assert torch.compile(lambda out: out, fullgraph=True)(as_list)[0] is X


def test_an_object_from_outside_is_itself() -> None:
    kept = Out(torch.ones(3))
    compiled = torch.compile(lambda x: (x + kept.loss, kept), fullgraph=True)
    assert compiled(X)[1] is kept and compiled(X + 1)[1] is kept
    assert kept.loss is not None and kept.loss.tolist() == [1, 1, 1]


@pytest.mark.parametrize("twice", [lambda x: Plain(x * 2, itself=True), lambda x: [Out(x + 1)] * 2])
def test_one_that_stands_twice_runs_eagerly(twice: Any) -> None:
    """That the two are one object is not what a structure says."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "compiled .* runs eagerly")
        result = torch.compile(twice)(X)
    if isinstance(result, list):
        assert result[0] is result[1] and result[0].loss.tolist() == [1, 2, 3]
    else:
        assert result.itself is result and result.tensor.tolist() == [0, 2, 4]
    with pytest.raises(TraceError, match="stands in the result more than once"):
        torch.compile(twice, fullgraph=True)(X)


# -- dataclasses among the arguments ---------------------------------------------------------------


@dataclasses.dataclass
class Batch:
    x: Any
    shift: int = 0
    rest: Any = None
    scale = 2

    def scaled(self) -> Any:
        return self.x * self.scale + self.shift


def test_a_dataclass_of_tensors_is_as_good_as_its_tensors() -> None:
    """Not one object, which would be compiled for anew."""
    compiled = torch.compile(lambda batch: batch.scaled(), fullgraph=True)
    for number in range(8):
        rows = 3 + number % 3
        result = compiled(Batch(torch.full((rows,), float(number)), number % 2))
        assert result.tolist() == [2.0 * number + number % 2] * rows
    assert len({id(each.program) for each in compiled.specializations}) <= 3


def test_what_its_methods_read_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = torch.compile(lambda batch: batch.scaled(), fullgraph=True)
    assert compiled(Batch(X)).tolist() == [0, 2, 4]
    monkeypatch.setattr(Batch, "scale", 3)
    assert compiled(Batch(X)).tolist() == [0, 3, 6]
    monkeypatch.setattr(Batch, "scaled", lambda self: self.x * 7)
    assert compiled(Batch(X)).tolist() == [0, 7, 14]


def test_one_that_is_changed_runs_eagerly() -> None:
    def step(batch: Batch) -> Any:
        batch.x = batch.x + 1
        return batch.x * 2

    batch = Batch(X)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "compiled .* runs eagerly")
        compiled = torch.compile(step)
        assert [compiled(batch).tolist() for _ in range(2)] == [[2, 4, 6], [4, 6, 8]]
    assert batch.x.tolist() == [2, 3, 4]


def test_one_beside_what_may_change_unseen_is_one_object() -> None:
    compiled = torch.compile(lambda batch: batch.x * 2, fullgraph=True)
    kept = np.zeros(1 << 18)
    assert compiled(Batch(X, rest=kept)).tolist() == [0, 2, 4]
    assert compiled(Batch(X + 1, rest=kept)).tolist() == [2, 4, 6]

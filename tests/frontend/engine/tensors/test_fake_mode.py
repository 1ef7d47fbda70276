"""The mode in which ops compute types alone: models, gradients, loops, own operators, nesting."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import frontend as torch
from frontend._subclasses.fake_tensor import FakeTensorMode
from frontend.engine.tensors.mode import Mode
from frontend.engine.tensors.state import STATE
from frontend.engine.tracing.session import Session
from frontend.nn import functional as F
from graphc.errors import TraceError


def model() -> Any:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Dropout(0.5),
        torch.nn.Flatten(), torch.nn.Linear(4 * 36, 5),
    )  # fmt: skip


def types(value: Any) -> list[tuple[Any, Any]]:
    return [(tuple(x.shape), x.dtype) for x in value]


def test_both_modes_have_all_of_the_contract_and_it_stays_small() -> None:
    methods = {name for name, member in vars(Mode).items() if inspect.isfunction(member)}
    methods = {name for name in methods if not name.startswith("_")}
    assert 20 < len(methods) <= 25
    for mode in (FakeTensorMode, Session):
        for name in methods:
            wanted = inspect.signature(getattr(Mode, name)).parameters
            assert [*inspect.signature(getattr(mode, name)).parameters] == [*wanted], name
    page = (Path(__file__).parents[4] / "docs" / "engine.md").read_text("utf-8")
    table = page.partition("| group | methods |")[2].partition("Type promotion")[0]
    assert set(re.findall(r"`([a-z]\w+)`", table)) == methods


def test_a_step_of_a_model_with_data_gives_types_and_changes_nothing() -> None:
    net, x, y = model(), torch.randn(2, 3, 8, 8), torch.tensor([1, 2])
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    wanted = types([loss, *(p.grad for p in net.parameters())])
    net.zero_grad()
    state = {name: value.clone() for name, value in net.state_dict().items()}
    drawn = torch.get_rng_state()
    for p in net.parameters():
        p.requires_grad_(True)
    with FakeTensorMode(), pytest.raises(RuntimeError, match="with data is changed in place"):
        net(x)  # the running statistics
    net.eval()
    with FakeTensorMode():
        fake = F.cross_entropy(F.dropout(net(x), 0.5), y)
        gradients = torch.autograd.grad(fake, [*net.parameters()])
    assert fake.is_meta and all(g.is_meta for g in gradients)
    assert types([fake, *gradients]) == wanted
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), drawn)
    assert STATE.mode is None and STATE.devices == (None,)


def test_what_is_made_inside_has_no_memory_and_trains() -> None:
    with FakeTensorMode() as mode:
        huge = torch.zeros(1 << 20, 1 << 20)
        net = model()
        optimizer = torch.optim.Adam(net.parameters())
        loss = net(torch.randn(2, 3, 8, 8)).square().mean()
        loss.backward()
        optimizer.step()
        with pytest.raises(NotImplementedError, match="no data"):
            loss.item()
    assert huge.is_meta and all(p.is_meta and p.grad.is_meta for p in net.parameters())
    weight = torch.nn.Parameter(torch.ones(2, 3))
    fake = mode.from_tensor(weight)
    assert fake.is_meta and fake.requires_grad and fake.shape == (2, 3)


def step(carry: Any, x: Any) -> Any:
    return carry + x.sum(), carry * x


@pytest.mark.parametrize("by_operands", [True, False])
def test_loops_and_branches(by_operands: bool) -> None:
    device = "meta" if by_operands else "cpu"
    x = torch.ones(4, 3, device=device)
    carry = torch.ones(3, device=device)

    def run() -> list[Any]:
        final, ys = torch.scan(step, carry, x)
        chosen = torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a + 1, (x,))
        (last,) = torch.while_loop(lambda a: a.sum() < 9, lambda a: (a + 1,), (carry,))
        return [final, ys, chosen, last]

    if by_operands:
        results = run()
    else:
        with FakeTensorMode():
            results = run()
    assert all(each.is_meta for each in results)
    assert [tuple(each.shape) for each in results] == [(3,), (4, 3), (4, 3), (3,)]
    with FakeTensorMode(), pytest.raises(TraceError, match="different structures"):
        torch.cond(x.sum() > 0, lambda a: a, lambda a: (a, a), (x,))


def test_operators_of_ones_own_run_what_is_registered_for_types() -> None:
    @torch.library.custom_op("fakes::pairs", mutates_args=())
    def pairs(x: torch.Tensor) -> torch.Tensor:
        return torch.tensor(x.numpy()[::2].copy())

    x = torch.arange(6.0)
    with FakeTensorMode(), pytest.raises(TypeError, match="meta device type tensor to numpy"):
        pairs(x.to("meta"))

    @pairs.register_fake
    def _(x: Any) -> Any:
        return x.new_empty(x.shape[0] // 2)

    with FakeTensorMode():
        assert pairs(x).is_meta and pairs(x).shape == (3,)
    assert pairs(x.to("meta")).shape == (3,) and pairs(x).tolist() == [0, 2, 4]


def test_modes_nest_inside_a_trace() -> None:
    shapes: list[Any] = []

    def function(x: Any, w: Any) -> Any:
        with FakeTensorMode(), FakeTensorMode():
            shapes.append((x @ w).sum(0).shape)
        y = x @ w
        with FakeTensorMode():
            fake = (y * 2).reshape(-1)
            shapes.append(fake.shape)
        assert fake.is_meta
        return y + 1

    x, w = torch.ones(2, 3), torch.ones(3, 4)
    compiled = torch.compile(function)
    assert torch.equal(compiled(x, w), function(x, w))
    assert [tuple(shape) for shape in shapes] == [(4,), (8,)] * 2
    with pytest.raises(NotImplementedError, match="no data"):
        torch.compile(lambda x: leak(x) + x)(x)
    assert STATE.mode is None


def leak(x: Any) -> Any:
    with FakeTensorMode():
        return x * 2

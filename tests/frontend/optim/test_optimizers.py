"""Optimizers against the published formulas in NumPy, over ten steps; groups and state dicts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import optim

Array = np.ndarray
Rule = Callable[[Array], Iterator[Array]]  # p -> generator: send(gradient) gives the new p


def sgd(p: Array, o: dict[str, Any]) -> Any:
    buffer = None
    while True:
        g = yield p
        g = (-g if o["maximize"] else g) + o["weight_decay"] * p
        if o["momentum"]:
            fresh = buffer is None
            buffer = g.copy() if fresh else o["momentum"] * buffer + (1 - o["dampening"]) * g
            g = g + o["momentum"] * buffer if o["nesterov"] else buffer
        p = p - o["lr"] * g


def adam(p: Array, o: dict[str, Any]) -> Any:
    m, v, greatest, t = 0 * p, 0 * p, 0 * p, 0
    first, second = o["betas"]
    while True:
        g = yield p
        t += 1
        g = -g if o["maximize"] else g
        if o["decoupled"]:
            p = p * (1 - o["lr"] * o["weight_decay"])
        else:
            g = g + o["weight_decay"] * p
        m, v = first * m + (1 - first) * g, second * v + (1 - second) * g * g
        greatest = np.maximum(greatest, v)
        used = (greatest if o["amsgrad"] else v) / (1 - second**t)
        p = p - o["lr"] * (m / (1 - first**t)) / (np.sqrt(used) + o["eps"])


def asgd(p: Array, o: dict[str, Any]) -> Any:
    eta, t = np.float32(o["lr"]), 0  # kept in float32, as PyTorch does
    while True:
        g = yield p
        t += 1
        g = (-g if o["maximize"] else g) + o["weight_decay"] * p
        p = (1 - o["lambd"] * float(eta)) * p - float(eta) * g
        eta = np.float32(o["lr"] / (1 + o["lambd"] * o["lr"] * t) ** o["alpha"])


def rprop(p: Array, o: dict[str, Any]) -> Any:
    before, size = 0 * p, 0 * p + o["lr"]
    while True:
        g = yield p
        g = -g if o["maximize"] else g
        turn = g * before
        factor = np.select([turn > 0, turn < 0], [o["etas"][1], o["etas"][0]], 1)
        size = np.clip(size * factor, *o["step_sizes"])
        before = np.where(turn < 0, 0, g)
        p = p - np.sign(before) * size


RULES = {optim.SGD: sgd, optim.ASGD: asgd, optim.Rprop: rprop}
CASES = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.5, "maximize": True}),
    (optim.Adam, {"lr": 0.01}),
    (optim.Adam, {"lr": 0.01, "betas": (0.5, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    (optim.Adam, {"lr": 0.01, "betas": (0.0, 0.9)}),
    (optim.Adam, {"lr": 0.01, "amsgrad": True, "maximize": True}),
    (optim.AdamW, {"lr": 0.01}),
    (optim.AdamW, {"lr": 0.01, "weight_decay": 0.3, "amsgrad": True}),
    (optim.ASGD, {"lr": 0.05}),
    (optim.ASGD, {"lr": 0.05, "lambd": 0.2, "alpha": 0.5, "weight_decay": 0.1, "maximize": True}),
    (optim.Rprop, {"lr": 0.23}),
    (optim.Rprop, {"lr": 0.23, "etas": (0.3, 1.6), "step_sizes": (0.1, 0.3), "maximize": True}),
]


def loss_of(p: Any, q: Any) -> Any:
    return ((p * p).sum() - 3) ** 2 * 0.1 + (p[0] * q).sum()


def gradients(p: Array, q: Array) -> tuple[Array, Array]:
    gp = 0.4 * ((p * p).sum() - 3) * p
    gp[0] += q
    return gp, p[0].copy()


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("kind", "options"), CASES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_ten_steps(kind: Any, options: dict[str, Any], dtype: str) -> None:
    start = [np.linspace(-1, 1, 6).reshape(2, 3), np.array([0.5, -0.25, 1.0])]
    p, q = (torch.tensor(a.astype(dtype), requires_grad=True) for a in start)
    opt = kind([p, q], **options)
    full = {**opt.defaults, "decoupled": kind is optim.AdamW}
    rules = [RULES.get(kind, adam)(a, full) for a in start]
    values = [next(rule) for rule in rules]
    for _ in range(10):
        opt.zero_grad()
        loss_of(p, q).backward()
        opt.step()
        values = [rule.send(g) for rule, g in zip(rules, gradients(*values))]
        for tensor, value in zip((p, q), values):
            tolerance = 2e-5 if dtype == "float32" else 1e-11
            np.testing.assert_allclose(tensor.detach().numpy(), value, tolerance, tolerance)
            assert tensor.is_leaf and str(tensor.detach().numpy().dtype) == dtype


def test_parameters_without_a_gradient_stay_and_keep_their_own_count() -> None:
    p, q = (torch.ones(2, requires_grad=True) for _ in range(2))
    opt = optim.Adam([p, q], lr=0.1)
    p.sum().backward()
    opt.step()
    assert (q == 1).all() and q not in opt.state
    q.sum().backward()
    opt.step()
    p.grad = None
    opt.step()
    opt.step()
    assert [opt.state[x]["step"].item() for x in (p, q)] == [2, 3]
    assert opt.state[p]["step"] is not opt.state[q]["step"]


def test_parameters_that_share_a_count_part_when_one_stays_behind() -> None:
    p, q = (torch.ones(2, requires_grad=True) for _ in range(2))
    opt = optim.Adam([p, q], lr=0.1)
    (p + q).sum().backward()
    opt.step()
    assert opt.state[p]["step"] is opt.state[q]["step"]
    q.grad = None
    opt.step()
    assert [opt.state[x]["step"].item() for x in (p, q)] == [2, 1]


def test_a_changed_learning_rate_counts() -> None:
    p = torch.ones(1, requires_grad=True)
    opt = optim.SGD([p], lr=1.0)
    p.grad = torch.ones(1)
    opt.step()
    opt.param_groups[0]["lr"] = 0.5
    opt.step()
    assert p.item() == -0.5


def test_groups() -> None:
    p, q = (torch.ones(1, requires_grad=True) for _ in range(2))
    opt = optim.SGD([{"params": p, "lr": 1.0}, {"params": [q]}], lr=0.5, momentum=0.0)
    assert [group["lr"] for group in opt.param_groups] == [1.0, 0.5]
    p.grad, q.grad = torch.ones(1), torch.ones(1)
    opt.step()
    assert (p.item(), q.item()) == (0, 0.5)
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        opt.add_param_group({"params": [p]})
    assert len(opt.param_groups) == 2
    assert repr(opt).startswith("SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: F")
    assert "\n    weight_decay: 0\n\nParameter Group 1\n" in repr(opt)


def test_zero_grad() -> None:
    p = torch.ones(2, requires_grad=True)
    opt = optim.SGD([p], lr=0.1)
    p.sum().backward()
    opt.zero_grad(set_to_none=False)
    assert (p.grad == 0).all()
    opt.zero_grad()
    assert p.grad is None


def test_a_closure_runs_with_gradients_and_its_result_returns() -> None:
    p = torch.ones(2, requires_grad=True)
    opt = optim.SGD([p], lr=0.5)

    def closure() -> Any:
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        assert opt.step(closure).item() == 2
    assert p.tolist() == [0, 0]


@pytest.mark.parametrize(("kind", "options"), CASES, ids=str)
def test_state_dicts_resume_exactly(kind: Any, options: dict[str, Any]) -> None:
    def advance(p: Any, opt: Any, count: int) -> None:
        for _ in range(count):
            opt.zero_grad()
            ((p * p).sum() + p[0]).backward()
            opt.step()

    p = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    opt = kind([p], **options)
    advance(p, opt, 3)
    saved = copy.deepcopy(opt.state_dict())
    twin = p.detach().clone().requires_grad_()
    advance(p, opt, 3)
    other = kind([twin], lr=123.0)
    other.load_state_dict(saved)
    advance(twin, other, 3)
    np.testing.assert_array_equal(p.detach().numpy(), twin.detach().numpy())
    assert other.param_groups[0]["lr"] == options["lr"]


def test_the_average_of_asgd_is_the_parameter_first_and_the_mean_from_t0_on() -> None:
    p = torch.tensor([1.0, -2.0], requires_grad=True)
    opt = optim.ASGD([p], lr=0.1, t0=2)
    course = []
    for _ in range(7):
        opt.zero_grad()
        (p * p).sum().backward()
        opt.step()
        course.append(p.detach().numpy().copy())
        # The share of step t is 1 / max(1, t - 1 - t0): the first not 1 is that of step 5.
        since = course[3:] if len(course) > 4 else course[-1:]
        np.testing.assert_allclose(opt.state[p]["ax"], np.mean(since, 0), rtol=1e-6)


@pytest.mark.parametrize("kind", [optim.ASGD, optim.Rprop])
def test_a_rate_that_is_a_tensor_starts_the_state_as_a_number(kind: Any) -> None:
    ends = []
    for lr in (0.125, torch.tensor([0.125]), torch.tensor(0.125, dtype=torch.float64)):
        for shape in ((), (2,)):
            p = torch.ones(shape, requires_grad=True)
            opt = kind([p], lr=lr)
            for _ in range(3):
                opt.zero_grad()
                (p * p).sum().backward()
                opt.step()
            assert p.shape == shape
            ends.append(p.detach().numpy().ravel()[0])
    assert len(set(ends)) == 1


def test_rprop_takes_a_gradient_that_is_nan_as_none() -> None:
    p = torch.ones(2, requires_grad=True)
    opt = optim.Rprop([p], lr=0.5)
    p.grad = torch.tensor([float("nan"), 1.0])
    opt.step()
    p.grad = torch.ones(2)
    opt.step()
    # After a NaN there is no sign to compare with: the second step is as long as the first one.
    np.testing.assert_allclose(p.detach(), [0.5, 1 - 0.5 - 0.6], rtol=1e-6)


def test_loading_overwrites_state_in_place_and_copies() -> None:
    p, q = (torch.ones(2, requires_grad=True) for _ in range(2))
    opt = optim.Adam([p, q], lr=0.1)
    (p + q).sum().backward()
    opt.step()
    held = opt.state[p]["exp_avg"], opt.state[p]["step"]
    saved = copy.deepcopy(opt.state_dict())
    saved["state"][1]["step"] = torch.tensor(7.0)
    opt.step()
    opt.load_state_dict(saved)
    assert (opt.state[p]["exp_avg"], opt.state[p]["step"]) == held or (
        opt.state[p]["exp_avg"] is held[0] and opt.state[p]["step"] is held[1]
    )
    assert [opt.state[x]["step"].item() for x in (p, q)] == [1, 7]
    np.testing.assert_array_equal(held[0].numpy(), saved["state"][0]["exp_avg"].numpy())
    opt.step()
    assert saved["state"][0]["step"].item() == 1


def test_bad_state_dicts_change_nothing() -> None:
    p = torch.ones(2, requires_grad=True)
    opt = optim.SGD([p], lr=0.1, momentum=0.9)
    p.sum().backward()
    opt.step()
    before = copy.deepcopy(opt.state_dict())
    groups = before["param_groups"]
    with pytest.raises(ValueError, match="a different number of parameter groups"):
        opt.load_state_dict({"state": {}, "param_groups": []})
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        opt.load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]})
    with pytest.raises(ValueError, match=r"momentum_buffer of shape \[3\] for parameter 0"):
        bad = {0: {"momentum_buffer": torch.ones(3)}}
        opt.load_state_dict({"state": bad, "param_groups": groups})
    assert opt.state_dict()["param_groups"] == groups
    assert opt.state[p]["momentum_buffer"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (optim.SGD, {"lr": -1}, "Invalid learning rate: -1"),
        (optim.SGD, {"momentum": -1}, "Invalid momentum value: -1"),
        (optim.SGD, {"weight_decay": -1}, "Invalid weight_decay value: -1"),
        (optim.SGD, {"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
        (optim.Adam, {"lr": -1}, "Invalid learning rate: -1"),
        (optim.Adam, {"eps": -1}, "Invalid epsilon value: -1"),
        (optim.Adam, {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
        (optim.AdamW, {"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
        (optim.AdamW, {"weight_decay": -1}, "Invalid weight_decay value: -1"),
        (optim.ASGD, {"lr": -1}, "Invalid learning rate: -1"),
        (optim.ASGD, {"weight_decay": -1}, "Invalid weight_decay value: -1"),
        (optim.Rprop, {"lr": torch.ones(2)}, "Tensor lr must be 1-element"),
        (optim.Rprop, {"etas": (0.5, 1.0)}, "Invalid eta values: 0.5, 1.0"),
    ],
)
def test_impossible_options(kind: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind([torch.ones(1, requires_grad=True)], **options)


def test_impossible_parameters() -> None:
    p = torch.ones(1, requires_grad=True)
    with pytest.raises(ValueError, match="optimizer got an empty parameter list"):
        optim.SGD([])
    with pytest.raises(TypeError, match=r"iterable of Tensors or dicts, but got torch.FloatTensor"):
        optim.SGD(p)
    with pytest.raises(TypeError, match="one of the params is int"):
        optim.SGD([3])
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        optim.SGD([p * 2])
    with pytest.raises(TypeError, match="ordered collections"):
        optim.SGD([{"params": {p}}])
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([p, p])

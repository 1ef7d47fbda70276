"""cond, while_loop, scan: eager = compiled in values, gradients and state; what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frontend as torch
import graphc
from frontend import nn
from frontend.engine.tensors import tree
from frontend.nn import functional as F
from graphc.schedule.plan import Loop, all_steps, kernels
from graphc.schedule.run_plan import run_plan

Made = tuple[Callable[..., Any], tuple[Any, ...], list[Any]]


def arrays_of(value: Any) -> tuple[Any, list[np.ndarray]]:
    leaves: list[torch.Tensor] = []
    structure = tree.flatten(value, leaves)
    return structure, [x.detach().numpy().copy() for x in leaves]


def outcome(make: Callable[[], Made], calls: int, **options: Any) -> list[Any]:
    """What `calls` calls return, and then the watched tensors and their gradients."""
    torch.manual_seed(0)
    function, arguments, watched = make()
    if options:
        function = torch.compile(function, **options)
    results: list[Any] = [arrays_of(function(*arguments)) for _ in range(calls)]
    results.append(arrays_of(watched))
    grads = [x.grad for x in watched]
    return [*results, arrays_of([g for g in grads if g is not None]), [g is None for g in grads],
            [x.requires_grad for x in watched]]  # fmt: skip


def same(make: Callable[[], Made], calls: int = 1, tolerance: float = 1e-5, **options: Any) -> None:
    """`make()` returns a function, its arguments, and tensors to watch."""
    want = outcome(make, calls)
    got = outcome(make, calls, **(options or {"level": "exact"}))
    assert got[-2:] == want[-2:]
    for (structure, results), (expected_structure, expected) in zip(got[:-2], want[:-2]):
        assert structure == expected_structure
        for one, two in zip(results, expected, strict=True):
            assert one.dtype == two.dtype
            np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(*shape)


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


# -- values and gradients -------------------------------------------------------------------------


@pytest.mark.parametrize("flag", [True, False])
def test_cond_with_nested_results_and_captured_parameters(flag: bool) -> None:
    def make() -> Made:
        w, x = leaf(3), leaf(3)

        def f(x: Any, p: Any) -> Any:
            out = torch.cond(
                p, lambda x: {"r": (x * w).sum(), "s": (x, [x + 1])},
                lambda x: {"r": (x + w).sum(), "s": (x * 2, [w * 1])}, (x,),
            )  # fmt: skip
            (out["r"] + out["s"][0].sum() + out["s"][1][0].sum()).backward()
            return out

        return f, (x, torch.tensor(flag)), [w, x]

    same(make)
    same(make, level="none")


@pytest.mark.parametrize("value", [0.0, 2.5])
def test_cond_by_a_number(value: float) -> None:
    def make() -> Made:
        def f(x: Any) -> Any:
            return torch.cond(x.sum(), lambda: ones(2), lambda: torch.zeros(2))

        return f, (torch.full((1, 1), value),), []

    same(make)


@pytest.mark.parametrize(("dim", "reverse"), [(0, False), (1, True), (-1, False)])
def test_scan_over_nested_sequences(dim: int, reverse: bool) -> None:
    def make() -> Made:
        x, w = leaf(4, 4, 4), leaf(4, 4)

        def f(x: Any) -> Any:
            def step(carry: Any, t: Any) -> Any:
                h = torch.tanh(carry["h"] @ w + t[0] * t[1]["b"])
                return {"h": h, "n": carry["n"] + 1}, (h.sum(), {"n": carry["n"]})

            init = {"h": torch.zeros(4, 4), "n": torch.tensor(0)}
            xs = (x, {"b": x * 2})
            carry, ys = torch.scan(step, init, xs, dim=dim, reverse=reverse)
            (carry["h"].sum() + (ys[0] * ys[0]).sum()).backward()
            return carry, ys

        return f, (x,), [x, w]

    same(make, tolerance=1e-4)


def test_ys_are_stacked_along_dim_as_in_pytorch() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)

    def f(x: Any, dim: int) -> Any:
        init = torch.zeros(2, 4)
        return torch.scan(lambda c, x: (c + x, (c * 1, c.sum())), init, x, dim=dim, reverse=True)

    for run in (f, torch.compile(f)):
        for dim in (1, -2):
            _, (ys, sums) = run(x, dim)
            assert ys.shape == (2, 3, 4) and sums.shape == (3,)
            np.testing.assert_array_equal(ys[:, 0], [[12, 14, 16, 18], [36, 38, 40, 42]])
    with pytest.raises(graphc.ShapeError, match="no dimension 2"):
        torch.scan(lambda c, x: (c, x), x[0, 0], (x, x[0]), dim=-1)


def test_scan_by_length_with_no_ys() -> None:
    def make() -> Made:
        return (lambda x: torch.scan(lambda c, _: (c * 2, None), x, length=3)), (ones(3),), []

    same(make)


def test_scans_and_branches_in_scans() -> None:
    def make() -> Made:
        w, x = leaf(3, 3), leaf(4, 2, 3)

        def f(xs: Any) -> Any:
            def inner(h: Any, z: Any) -> Any:
                h = torch.cond(
                    h.sum() > z.sum(), lambda h: torch.tanh(h @ w), lambda h: h * w[0], (h + z,)
                )
                return h, h.sum()

            def outer(c: Any, x: Any) -> Any:
                h, s = torch.scan(inner, c, x)
                return h, s * c.sum()

            c, y = torch.scan(outer, torch.zeros(3), xs)
            (c.sum() + (y * y).sum()).backward()
            return c, y

        return f, (x,), [w, x]

    same(make, tolerance=1e-4)


def test_modules_in_a_body() -> None:
    def make() -> Made:
        m = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))

        def f(xs: Any) -> Any:
            c, ys = torch.scan(lambda c, x: ((h := m(c + x)), h * 2), torch.zeros(2, 3), xs)
            loss = (c * c).sum() + ys.sum()
            loss.backward()
            return loss, ys

        return f, (torch.randn(4, 2, 3),), list(m.parameters())

    same(make, tolerance=1e-4)


def test_a_second_derivative_through_a_scan_and_a_branch() -> None:
    def make() -> Made:
        w = leaf(3)

        def f(xs: Any) -> Any:
            c, y = torch.scan(lambda c, x: (torch.sin(c * w) + x, c * w), ones(3), xs)
            d = torch.cond(xs.sum() > -100, lambda c: torch.sin(c * w), lambda c: c + w, (c,))
            (g,) = torch.autograd.grad(c.sum() + y.sum() + d.sum(), [w], create_graph=True)
            (g * g).sum().backward()
            return c, g

        return f, (torch.randn(4, 3),), [w]

    same(make, tolerance=1e-4)


def test_what_no_gradient_reaches_has_none() -> None:
    def make() -> Made:
        x, w, u, h = leaf(4, 3), leaf(3), leaf(3), leaf(3)

        def f(xs: Any) -> Any:
            def step(c: Any, x: Any) -> Any:
                seen = (c[1] * u + x).detach()
                return (c[0] * w, c[1] + seen), seen

            c, _ = torch.scan(step, (ones(3), h), xs)
            c[0].sum().backward()
            d = torch.cond(xs.sum() > 0, lambda: u * 1, lambda: u * 2)
            return c, d

        return f, (x,), [x, w, u, h]

    same(make)


@pytest.mark.slow
def test_layers_with_recipes_of_their_own_in_a_body() -> None:
    """Gathers with checks, losses, attention, normalisation, convolution, sorting."""

    def make() -> Made:
        words, norm = nn.Embedding(7, 4), nn.LayerNorm(4)
        attention = nn.MultiheadAttention(4, 2, batch_first=True)
        conv = nn.Conv1d(3, 3, 3, padding=1)

        def f(ix: Any, t: Any) -> Any:
            def step(c: Any, z: Any) -> Any:
                x = words(z[0])
                c = norm(c + attention(c, x, x)[0])
                c = torch.relu(conv(c)) + c.sort(-1)[0]
                return c, F.cross_entropy(c[0], z[1])

            c, losses = torch.scan(step, torch.zeros(1, 3, 4), (ix, t))
            (c.sum() + losses.sum()).backward()
            return c, losses

        watched = [words.weight, *norm.parameters(), *attention.parameters(), *conv.parameters()]
        return f, (torch.randint(0, 7, (3, 1, 3)), torch.randint(0, 4, (3, 3))), watched

    same(make, tolerance=1e-3)
    same(make, tolerance=1e-3, level="relaxed")


def test_backward_outside_of_the_compiled_function() -> None:
    gradients = []
    for wrapped in (lambda f: f, torch.compile):
        torch.manual_seed(0)
        net = nn.LSTM(3, 4)
        w = torch.full((4,), 2.0, requires_grad=True)

        def f(x: Any, net: Any = net, w: Any = w) -> Any:
            y, (h, _) = net(x)
            return y, torch.cond(h.sum() > -99, lambda h: h * w * w, lambda h: h + w, (h,))

        y, z = wrapped(f)(torch.randn(5, 2, 3))
        (y.sum() + (z * z).sum()).backward()
        gradients.append([p.grad.numpy() for p in (w, *net.parameters())])
    for one, two in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


def test_half_precision_and_integers() -> None:
    def make() -> Made:
        x = torch.ones(4, 3, dtype=torch.float16, requires_grad=True)

        def f(xs: Any, n: Any) -> Any:
            zero = torch.zeros(3, dtype=torch.float16)
            c, y = torch.scan(lambda c, x: (c + x * x, c * x), zero, xs)
            (c.sum() + y.sum()).backward()
            return c, y, torch.scan(lambda c, x: (c + x, c > x), torch.tensor(0), n)

        return f, (x, torch.arange(5)), [x]

    same(make)


def test_an_ode_by_a_while_loop() -> None:
    def make() -> Made:
        def slope(y: Any) -> Any:
            return torch.stack([y[1], -y[0]])

        def body(y: Any, t: Any, dt: Any) -> Any:
            k1 = slope(y)
            k2 = slope(y + dt / 2 * k1)
            k3 = slope(y + dt / 2 * k2)
            k4 = slope(y + dt * k3)
            return y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4), t + dt, dt

        def f(y: Any) -> Any:
            start = (y, torch.zeros(()), torch.tensor(0.01))
            return torch.while_loop(lambda y, t, dt: t < 1.0, body, start)

        return f, (torch.tensor([1.0, 0.0]),), []

    same(make)
    fn, (start,), _ = make()
    y = torch.compile(fn)(start)[0].numpy()
    np.testing.assert_allclose(y, [np.cos(1), -np.sin(1)], rtol=0, atol=1e-2)


def test_a_while_loop_that_runs_not_at_all_gives_copies() -> None:
    def make() -> Made:
        def f(x: Any) -> Any:
            (y,) = torch.while_loop(lambda x: x.sum() > 99, lambda x: (x * 2,), (x,))
            y.add_(1)
            return y, x * 1

        return f, (ones(3),), []

    same(make)


def test_what_comes_back_shares_no_memory() -> None:
    def make() -> Made:
        def f(xs: Any, s: Any) -> Any:
            c, y = torch.scan(lambda c, x: (c, x), s, xs)
            c.add_(1)
            a, b = torch.cond(s.sum() < 9, lambda s: (s, s), lambda s: (s, s), (s,))
            b.add_(1)
            return c, y, a, b, s * 1

        return f, (ones(4, 3), torch.zeros(3)), []

    same(make)


# -- what gradients go through --------------------------------------------------------------------


def differentiated(body: Callable[..., Any]) -> None:
    """scan of `body(c, x, w)`."""

    def make() -> Made:
        w = leaf(3)

        def f(xs: Any) -> Any:
            c, y = torch.scan(lambda c, x: body(c, x, w), ones(3), xs)
            (c.sum() + y.sum()).backward()
            return c, y

        return f, (torch.randn(4, 3),), [w]

    same(make, tolerance=1e-4)


def test_detach_stops_gradients_in_a_body() -> None:
    def body(c: Any, x: Any, w: Any) -> Any:
        h = c * w
        straight = h + (h.round() - h).detach()
        return straight + w.detach() * x, h.detach() * w

    differentiated(body)


def test_no_grad_stops_gradients_in_a_body() -> None:
    def body(c: Any, x: Any, w: Any) -> Any:
        assert torch.is_grad_enabled()
        with torch.no_grad():
            assert not torch.is_grad_enabled()
            k = c * w
            seen = k[1:]
            with torch.enable_grad():
                u = k * w
        return c * w + k + u * 0.1, seen.sum() * w

    differentiated(body)


def test_what_is_changed_without_gradient_keeps_that_of_the_old_value() -> None:
    def body(c: Any, x: Any, w: Any) -> Any:
        h = c * w
        with torch.no_grad():
            h.clamp_(-0.5, 0.5)
            h[1:].mul_(3)
        d = (c * x + w).detach()
        h = h + w
        shown = h.detach()
        shown.mul_(2)
        return h + d, shown.sum()

    differentiated(body)


def test_changes_through_views_inside_a_body() -> None:
    def body(c: Any, x: Any, w: Any) -> Any:
        h = c * w
        h[1:] = h[1:] * x[1:]
        first = h[0]
        first.mul_(x[0])
        return h + 1, h.sum()

    differentiated(body)


def test_views_and_detached_views_of_captured_tensors() -> None:
    def make() -> Made:
        w = leaf(3)

        def f(xs: Any) -> Any:
            v, d = w.view(3), w.detach()
            c, y = torch.scan(lambda c, x: (c * w + v * x + d, c), ones(3), xs)
            c.sum().backward()
            return c, y

        return f, (torch.randn(4, 3),), [w]

    same(make)


def test_some_parameters_frozen() -> None:
    def make() -> Made:
        net = nn.LSTM(3, 4).requires_grad_(False)
        net.weight_hh_l0.requires_grad_(True)

        def f(x: Any) -> Any:
            y, (h, c) = net(x)
            (h.sum() + c.sum()).backward()
            return y

        return f, (torch.randn(5, 2, 3),), list(net.parameters())

    same(make)


# -- state ----------------------------------------------------------------------------------------


def test_a_running_mean_is_carried_and_takes_no_gradient() -> None:
    def make() -> Made:
        bn = nn.BatchNorm1d(3)

        def f(xs: Any) -> Any:
            def step(c: Any, x: Any) -> Any:
                y = bn(x)
                return c + (y * y * x).sum(), bn.running_mean.clone()

            c, ys = torch.scan(step, torch.zeros(()), xs)
            c.backward()
            return c, ys

        watched = [bn.running_mean, bn.running_var, bn.weight, bn.bias, bn.num_batches_tracked]
        return f, (torch.randn(4, 5, 3),), watched

    same(make, calls=2, tolerance=1e-4)


def test_random_numbers_in_bodies_are_the_eager_ones() -> None:
    def make() -> Made:
        own = torch.Generator().manual_seed(5)
        drop = nn.Dropout(0.5)

        def f(xs: Any) -> Any:
            def inner(d: Any, z: Any) -> Any:
                e = torch.cond(z > 0, lambda z: torch.rand(3) * z, lambda z: drop(ones(3)), (z,))
                return d + e, torch.randint(0, 9, (2,), generator=own)

            def outer(c: Any, x: Any) -> Any:
                return torch.scan(inner, c, x)

            until = torch.while_loop(
                lambda c: c < 3, lambda c: (c + torch.rand(()),), (torch.zeros(()),)
            )
            return torch.scan(outer, torch.zeros(3), xs), until, torch.rand(2)

        return f, (torch.randn(4, 3),), []

    same(make, calls=3)


def test_a_parameter_changed_without_gradient_in_a_body() -> None:
    """It is a leaf behind the loop too, and gradients go to its old value."""

    def make() -> Made:
        w = leaf(3)
        w.grad = ones(3)
        optimizer = torch.optim.SGD([w], lr=0.1)

        def f(xs: Any) -> Any:
            h = w * 2

            def step(c: Any, x: Any) -> Any:
                optimizer.step()
                with torch.no_grad():
                    h.add_(c)
                return c + x, w.detach() * 1

            out = torch.scan(step, torch.zeros(3), xs)
            assert w.is_leaf
            (gradient,) = torch.autograd.grad((h * xs[0]).sum(), [w], retain_graph=True)
            return out, gradient, h

        return f, (torch.randn(4, 3),), [w]

    same(make, calls=2)


@pytest.mark.parametrize("flag", [True, False])
def test_state_changed_in_one_branch(flag: bool) -> None:
    def make() -> Made:
        s, n = torch.zeros(3), torch.tensor(0)

        def then(x: Any) -> Any:
            s.add_(x)
            n.add_(1)
            return x * 2

        def only() -> None:
            s[1:].add_(1)

        def f(x: Any, p: Any) -> Any:
            out = torch.cond(p, then, lambda x: x, (x,))
            torch.cond(p, only, lambda: None)
            return out, s * 1

        return f, (ones(3), torch.tensor(flag)), [s, n]

    same(make, calls=2)


def test_state_changed_through_views_in_a_while_loop() -> None:
    def make() -> Made:
        s = torch.zeros(3)

        def body(x: Any) -> Any:
            s[1:].add_(1)
            s[0] = x.sum()
            return x * 2

        def f(x: Any) -> Any:
            return torch.while_loop(lambda x: x.sum() < 50, body, (x,)), s * 1

        return f, (ones(3),), [s]

    same(make, calls=2)


def test_views_of_what_a_body_changes_follow_it_from_run_to_run() -> None:
    def make() -> Made:
        w = leaf(3)

        def f(xs: Any) -> Any:
            h = w * 2
            v = h[1:]
            d = h.detach()[0]

            def step(c: Any, x: Any) -> Any:
                before = v.sum() + d
                h.add_(x * w)
                return c + before, v * 1

            c, y = torch.scan(step, torch.zeros(()), xs)
            (c + (h * h).sum() + y.sum() + v.sum()).backward()
            return c, y, h, v, d

        return f, (torch.randn(4, 3),), [w]

    same(make, tolerance=1e-4)


def test_a_content_check_that_fails_at_a_later_step_leaves_state() -> None:
    table, state = torch.randn(3, 2), torch.zeros(2)

    def f(ix: Any) -> Any:
        def step(c: Any, i: Any) -> Any:
            state.add_(1)
            return c + table[i], i

        return torch.scan(step, torch.zeros(2), ix)

    for level in ("none", "exact"):
        run = torch.compile(f, level=level)
        run(torch.tensor([0, 1, 2, 1, 0]))
        before = state.numpy().copy()
        with pytest.raises(IndexError, match=r"index 9 is out of bounds(.|\n)*test_control.py"):
            run(torch.tensor([0, 1, 2, 9, 0]))
        np.testing.assert_array_equal(state.numpy(), before)
        run(torch.tensor([0, 1, 2, 1, 0]))
        np.testing.assert_array_equal(state.numpy(), before + 5)


# -- recurrent networks ---------------------------------------------------------------------------

LAYERS = {"num_layers": 2, "bidirectional": True, "batch_first": True, "dropout": 0.3}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("options", [{}, LAYERS], ids=["plain", "layers"])
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent_training_steps(kind: str, options: dict[str, Any]) -> None:
    losses: list[Any] = []

    def make() -> Made:
        net = getattr(nn, kind)(3, 4, **options)
        head = nn.Linear(8 if options else 4, 2)
        parameters = [*net.parameters(), *head.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=1e-2)

        def f(x: Any, t: Any) -> Any:
            loss = F.cross_entropy(head(net(x)[0]).reshape(-1, 2), t.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        losses.append(f)
        return f, (torch.randn(5, 2, 3), torch.randint(0, 2, (5, 2))), parameters

    same(make, calls=5)
    torch.manual_seed(0)
    f, arguments, _ = make()
    run = torch.compile(f)
    run(*arguments)
    loops = 2 * (4 if options else 1)  # one forward, one backward
    assert sum(isinstance(s, Loop) for s in plan_of(run).steps) == loops


def plan_of(run: Any) -> Any:
    ((specialization,),) = (run.specializations,)
    (executable,) = specialization.executables
    return executable.plan


def test_a_long_sequence_compiles_to_as_much_as_a_short_one() -> None:
    def plan(steps: int) -> Any:
        torch.manual_seed(0)
        net = nn.LSTM(3, 4)

        def f(x: Any) -> Any:
            y, _ = net(x)
            y.sum().backward()
            return y

        run = torch.compile(f)
        run(torch.randn(steps, 2, 3))
        return plan_of(run)

    short, long = plan(5), plan(500)
    assert len(kernels(long)) == len(kernels(short))
    assert len(list(all_steps(long))) == len(list(all_steps(short)))


def test_two_threads_give_the_same_bits() -> None:
    results = []
    for threads in (1, 2):
        torch.manual_seed(0)
        net = nn.LSTM(48, 96)
        x = torch.randn(6, 32, 48)

        def f(x: Any, net: Any = net) -> Any:
            y, _ = net(x)
            y.sum().backward()
            return y

        y = torch.compile(f, threads=threads)(x)
        results.append([y.detach().numpy(), *[p.grad.numpy() for p in net.parameters()]])
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


# -- what is refused ------------------------------------------------------------------------------

X = np.ones((4, 3), np.float32)
S = np.zeros(3, np.float32)
BOTH: list[tuple[Any, Any, str]] = [
    (lambda x, s: torch.scan(lambda c, x: (c.sum(), x), s, x), graphc.ShapeError,
     r"carry 0 is f32\[3\] and f32\[\](.|\n)*test_control"),
    (lambda x, s: torch.scan(lambda c, x: (c.long(), x), s, x), graphc.DTypeError,
     r"carry 0 is f32\[3\] and i64\[3\]"),
    (lambda x, s: torch.scan(lambda c, x: ((c, c), x), s, x), graphc.TraceError, "structure"),
    (lambda x, s: torch.scan(lambda c, x: c, s, x), TypeError, r"return \(carry, y\)"),
    (lambda x, s: torch.scan(lambda c, x: (c, x), s, x[:0]), ValueError, "at least one step"),
    (lambda x, s: torch.scan(lambda c, x: (c, x), s), graphc.ShapeError, "none given"),
    (lambda x, s: torch.scan(lambda c, x: (c, x[0]), s, (x, x[:2])), graphc.ShapeError, "2, 4"),
    (lambda x, s: torch.scan(lambda c, x: (c, x), s, x, length=7), graphc.ShapeError, "4, 7"),
    (lambda x, s: torch.scan(lambda c, x: (c, x), s, x, dim=2), graphc.ShapeError,
     "no dimension 2"),
    (lambda x, s: torch.scan(lambda c, x: (c, x), 3.0, x), TypeError, "must be a Tensor"),
    (lambda x, s: torch.scan(lambda c, x: (c.add_(x), x), s, x), graphc.TraceError,
     "changes a tensor that it is given"),
    (lambda x, s: torch.scan(lambda c, x: (c, x.mul_(2)), s, x), graphc.TraceError,
     "changes a tensor that it is given"),
    (lambda x, s: torch.cond(x > 0, lambda x: x, lambda x: x, (x,)), RuntimeError, "one element"),
    (lambda x, s: torch.cond(x.sum() > 0, lambda x: x, lambda x: x, (3,)), TypeError,
     "must be a Tensor"),
    (lambda x, s: torch.cond(x.sum() > 0, lambda x: x.add_(1), lambda x: x, (x,)),
     graphc.TraceError, "changes a tensor that it is given"),
    (lambda x, s: torch.while_loop(lambda x: x.sum() < 99, lambda x: x.sum(), (x,)),
     graphc.ShapeError, "carried value 0"),
    (lambda x, s: torch.while_loop(lambda x: x.sum() < 99, lambda x: (x, x), (x,)),
     graphc.TraceError, "structure"),
    (lambda x, s: torch.while_loop(lambda x: x < 9, lambda x: x + 1, (x,)), RuntimeError,
     "one element|more than one value"),
]  # fmt: skip


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(("function", "kind", "message"), BOTH)
def test_refused_eager_and_compiled(function: Any, kind: Any, message: str, compiled: bool) -> None:
    run = torch.compile(function, fullgraph=True) if compiled else function
    with pytest.raises(kind, match=message):
        run(torch.tensor(X), torch.tensor(S))


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


W = torch.ones(3, requires_grad=True)
COMPILED: list[tuple[Any, Any, str]] = [
    (lambda x, s: torch.scan(lambda c, x: (c if c.sum() > 0 else x, x), s, x), graphc.TraceError,
     r"bool\(\) needs the value"),
    (lambda x, s: torch.scan(lambda c, x: (c * x[0].item(), x), s, x), graphc.TraceError,
     r"item\(\) needs the value"),
    (lambda x, s: torch.cond(x.sum() > 0, lambda x: x, lambda x: x[0], (x,)), graphc.ShapeError,
     r"result 0 is f32\[4,3\] and f32\[3\]"),
    (lambda x, s: torch.cond(x.sum() > 0, lambda x: x, lambda x: (x,), (x,)), graphc.TraceError,
     "different structures"),
    (lambda x, s: torch.scan(lambda c, x: (c, torch.autograd.grad((W * x).sum(), [W])[0]), s, x),
     graphc.TraceError, r"grad\(\) in the body"),
    (lambda x, s: torch.scan(lambda c, x: (Square.apply(c * W), x), s, x), graphc.TraceError,
     "custom Function in the body"),
    (lambda x, s: torch.scan(lambda c, x: (torch.tap(c, print) + x, x), s, x), graphc.TraceError,
     r"tap\(\) in the body"),
    (lambda x, s: torch.scan(lambda c, x: (setattr(W, "grad", c) or c, x), s, x),
     graphc.TraceError, "writing .grad in the body"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "kind", "message"), COMPILED)
def test_refused_when_compiled(function: Any, kind: Any, message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        torch.compile(function, fullgraph=True)(torch.tensor(X), torch.tensor(S))
    assert "test_control.py" in str(caught.value)
    assert W.grad is None and torch.is_grad_enabled()


def test_a_value_kept_from_a_body_is_refused_later() -> None:
    kept: list[Any] = []

    def f(xs: Any) -> Any:
        torch.scan(lambda c, x: (kept.append(c) or c + x, x), torch.zeros(3), xs)
        return kept[-1] + 1

    with pytest.raises(graphc.TraceError, match="whose trace has ended"):
        torch.compile(f, fullgraph=True)(torch.tensor(X))


@pytest.mark.parametrize("inside", [None, "scan", "cond"])
def test_a_while_loop_runs_where_gradients_are_on_and_has_none(inside: str | None) -> None:
    w = torch.ones(3, requires_grad=True)

    def loop(x: Any) -> Any:
        return torch.while_loop(lambda x: x.sum() < 10, lambda x: (x + w * w,), (x,))[0]

    def f(xs: Any) -> Any:
        if inside == "scan":
            return torch.scan(lambda c, x: (loop(c + x) * 0.5, x), torch.zeros(3), xs)[0]
        if inside == "cond":
            return torch.cond(xs.sum() > 0, lambda x: loop(x[0]), lambda x: x[0] * w, (xs,))
        return loop(xs[0])

    def backward(xs: Any) -> None:
        f(xs).sum().backward()

    compiled, eager = torch.compile(f)(torch.tensor(X)), f(torch.tensor(X))
    np.testing.assert_allclose(compiled.detach(), eager.detach())
    with pytest.raises(RuntimeError, match=f"derivative for aten::{inside or 'while_loop'}"):
        torch.compile(backward)(torch.tensor(X))


# -- drawn bodies ---------------------------------------------------------------------------------

UNARY = [torch.tanh, torch.sigmoid, torch.sin, F.relu, torch.neg, lambda x: x * 0.5]
BINARY = [lambda x, y: x + y, lambda x, y: x * y, lambda x, y: x - y, torch.matmul, torch.maximum]


@st.composite
def bodies(draw: Any) -> tuple[Any, int, bool]:
    """A body over carry, slice and an invariant, all 3x3, as steps on a growing list."""
    plan = draw(
        st.lists(
            st.tuples(st.integers(0, 10), st.integers(0, 99), st.integers(0, 99)),
            min_size=1, max_size=6,
        )
    )  # fmt: skip

    def body(c: Any, x: Any, w: Any) -> Any:
        values = [c, x, w]
        for op, left, right in plan:
            one, two = values[left % len(values)], values[right % len(values)]
            values.append(UNARY[op](one) if op < 6 else BINARY[op - 6](one, two))
        return torch.tanh(values[-1]) + c * 0.1, values[len(values) // 2] + 0

    return body, draw(st.integers(1, 4)), draw(st.booleans())


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(drawn=bodies())
def test_drawn_bodies(drawn: tuple[Any, int, bool]) -> None:
    """Eager = none = exact = the plan's runner, in values and gradients."""
    body, steps, reverse = drawn

    def make() -> Made:
        init, xs, w = leaf(3, 3), leaf(steps, 3, 3), leaf(3, 3)

        def f(init: Any, xs: Any) -> Any:
            c, y = torch.scan(lambda c, x: body(c, x, w), init, xs, reverse=reverse)
            (c.sum() + (y * y).sum()).backward()
            return c, y

        return f, (init, xs), [init, xs, w]

    same(make, tolerance=1e-3, level="none")
    same(make, tolerance=1e-3, level="exact")
    torch.manual_seed(0)
    function, arguments, watched = make()
    graph = torch.trace(function, *arguments)
    given_arrays = [x.detach().numpy() for x in (*arguments, watched[-1])][: len(graph.inputs)]
    _, plan = graphc.schedule.build.plan_graph(graph)
    native = graphc.compile(graph)(*[x.copy() for x in given_arrays])
    for one, two in zip(run_plan(plan, tuple(given_arrays)), native, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-4)

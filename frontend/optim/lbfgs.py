"""L-BFGS: limited-memory quasi-Newton steps (D. Liu and J. Nocedal, "On the limited memory BFGS
method for large scale optimization", 1989)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from frontend.engine.tensors.state import enable_grad, no_grad, tracing
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import zeros
from frontend.functions.matrix import dot
from frontend.functions.shape import cat
from frontend.functions.unary import abs as magnitude
from frontend.optim.line_search import Point, strong_wolfe
from frontend.optim.optimizer import Optimizer
from frontend.optim.options import check_options
from graphc.errors import TraceError
from graphc.ir.builder import user_location

BRACKET = 1e-9
"""The change of a parameter between its ends at which a bracket is left as it is."""


class LBFGS(Optimizer):
    """Up to `max_iter` steps along the gradient times an approximate inverse Hessian, which is made
    of the last `history_size` changes of parameters and gradients. `step(closure)` asks the closure
    for loss and gradients up to `max_eval` times (5/4 · `max_iter` by default). The step length is
    `lr`, or is searched for (`line_search_fn="strong_wolfe"`). It ends where no gradient exceeds
    `tolerance_grad`, or parameters or loss change by less than `tolerance_change`.

    How far it goes depends on values, so `step` runs eagerly; the closure may be compiled. Raises
    ValueError for several parameter groups, TraceError in a trace."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1, max_iter: int = 20, max_eval: int | None = None,
        tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None,
    ):  # fmt: skip
        check_options(lr)
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn,
        })  # fmt: skip
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Several steps; the loss before the first one."""
        if closure is None:
            raise TypeError("LBFGS.step() needs a closure that computes the loss and gradients")
        if tracing():
            raise TraceError(
                "LBFGS.step() decides by values how far it goes, which a trace cannot follow",
                hint="call it outside, and compile what the closure calls",
                location=user_location(),
            )
        with no_grad():
            return _Steps(self, closure).run()


class _Steps:
    """One call of `step`. Its state is the optimizer's for the first parameter, under PyTorch's
    names."""

    def __init__(self, optimizer: LBFGS, closure: Callable[[], Any]):
        group = optimizer.param_groups[0]
        self.params: list[Tensor] = group["params"]
        self.state = optimizer.state[self.params[0]]
        self.closure = closure
        self.rate = float(group["lr"])
        self.options = group
        self.evaluations = 0
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")

    # -- parameters as one vector ------------------------------------------------------------

    def gradient(self) -> Tensor:
        """All gradients in one vector, 0 where there is none."""
        parts = [
            zeros(p.numel(), dtype=p.dtype) if p.grad is None else p.grad.to_dense().reshape(-1)
            for p in self.params
        ]
        return cat(parts)

    def move(self, t: float, direction: Tensor) -> None:
        offset = 0
        for p in self.params:
            part = direction[offset : offset + p.numel()]
            p.add_(part.reshape(p.shape), alpha=t)
            offset += p.numel()

    def evaluate(self) -> tuple[Any, float, Tensor]:
        """The closure's loss, as it is and as a number, and the gradient."""
        with enable_grad():
            loss = self.closure()
        self.evaluations += 1
        self.state["func_evals"] = self.state.get("func_evals", 0) + 1
        return loss, float(loss), self.gradient()

    # -- steps -------------------------------------------------------------------------------

    def run(self) -> Any:
        self.state.setdefault("n_iter", 0)
        first, loss, gradient = self.evaluate()
        tolerance, small = self.options["tolerance_grad"], self.options["tolerance_change"]
        if _greatest(gradient) <= tolerance:
            return first
        most, evaluations = self.options["max_iter"], self.options["max_eval"]
        for i in range(1, most + 1):
            self.state["n_iter"] += 1
            direction, t = self.direction(gradient)
            self.state.update(d=direction, t=t, prev_flat_grad=gradient.clone(), prev_loss=loss)
            slope = float(dot(gradient, direction))
            if slope > -small:
                break
            before = loss
            last = i == most
            loss, gradient, t = self.advance(Point(0.0, loss, gradient, slope), direction, t, last)
            self.state["t"] = t
            if last or self.evaluations >= evaluations or _greatest(gradient) <= tolerance:
                break
            if _greatest(direction * t) <= small or abs(loss - before) < small:
                break
        return first

    def direction(self, gradient: Tensor) -> tuple[Tensor, float]:
        """The direction to go in, and the first step length to try."""
        if self.state["n_iter"] == 1:
            self.state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            total = float(magnitude(gradient).sum())
            return -gradient, min(1.0, 1.0 / total) * self.rate
        self._remember(gradient)
        changes, steps, inverses = (self.state[name] for name in ("old_dirs", "old_stps", "ro"))
        # The two loops of Nocedal and Wright's algorithm 7.4.
        q, shares = -gradient, []
        for y, s, inverse in zip(reversed(changes), reversed(steps), reversed(inverses)):
            share = float(dot(s, q)) * inverse
            q = q - y * share
            shares.append(share)
        r = q * self.state["H_diag"]
        for y, s, inverse, share in zip(changes, steps, inverses, reversed(shares)):
            r = r + s * (share - float(dot(y, r)) * inverse)
        return r, self.rate

    def _remember(self, gradient: Tensor) -> None:
        """Take the last change of gradient and parameters into the history, where the curvature
        along it is positive."""
        y = gradient - self.state["prev_flat_grad"]
        s = self.state["d"] * self.state["t"]
        product = float(dot(y, s))
        if product <= 1e-10:
            return
        history = [self.state[name] for name in ("old_dirs", "old_stps", "ro")]
        for list_, new in zip(history, (y, s, 1.0 / product)):
            if len(list_) == self.options["history_size"]:
                list_.pop(0)
            list_.append(new)
        self.state["H_diag"] = product / float(dot(y, y))

    def advance(
        self, start: Point, direction: Tensor, t: float, last: bool
    ) -> tuple[float, Tensor, float]:
        """Go along the direction; loss, gradient and step length there."""
        if self.options["line_search_fn"] is None:
            self.move(t, direction)
            if last:  # nobody asks for the value there
                return start.value, start.gradient, t
            _, loss, gradient = self.evaluate()
            return loss, gradient, t
        origin = [p.clone() for p in self.params]

        def at(t: float) -> Point:
            self.move(t, direction)
            _, loss, gradient = self.evaluate()
            for p, value in zip(self.params, origin):
                p.copy_(value)
            return Point(t, loss, gradient, float(dot(gradient, direction)))

        left = self.options["max_eval"] - self.evaluations
        taken = strong_wolfe(at, t, start, _greatest(direction), BRACKET, left)
        self.move(taken.t, direction)
        return taken.value, taken.gradient, taken.t


def _greatest(x: Tensor) -> float:
    return float(magnitude(x).max())

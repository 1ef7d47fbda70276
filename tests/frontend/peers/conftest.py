"""What the comparisons with PyTorch share. They are not collected where torch is not installed:
`.ci/run` has a stage for them.

`peer` builds the same thing in both systems, gives both the same numbers and compares everything a
user can see: outputs, gradients, buffers, state dicts; eager and compiled.
"""

from __future__ import annotations

import copy
import importlib.util
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import frontend
from tests.frontend.layer_cases.refusals.refusal import Refusal

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]

BOUND = 1e-5
MODES = ("eager", "compiled")


class Peer:
    """Both systems side by side. `bound` everywhere is the greatest difference over the greatest
    magnitude, per tensor."""

    def __init__(self, torch: Any):
        self.torch = torch
        self.random = np.random.default_rng(0)

    # -- numbers -----------------------------------------------------------------------------

    def normal(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape).astype(np.float32)

    def theirs(self, value: Any) -> Any:
        """NumPy arrays (in tuples, lists, dicts) as torch tensors; floats require grad."""
        return _mapped(value, lambda array: _differentiable(self.torch.tensor(array)))

    def ours(self, value: Any) -> Any:
        return _mapped(value, lambda array: _differentiable(frontend.tensor(array)))

    # -- comparing ---------------------------------------------------------------------------

    def agree(self, ours: Any, theirs: Any, label: str = "", bound: float = BOUND) -> None:
        """Same structure, shapes, dtypes and numbers."""
        if isinstance(theirs, self.torch.Tensor):
            assert isinstance(ours, frontend.Tensor), f"{label}: {type(ours)}"
            assert tuple(ours.shape) == tuple(theirs.shape), label
            assert ours.type() == theirs.type(), label
            mine, other = _array(ours), _array(theirs)
            np.testing.assert_array_equal(np.isnan(mine), np.isnan(other), f"{label}: NaN")
            np.testing.assert_array_equal(np.isinf(mine), np.isinf(other), f"{label}: infinities")
            finite = np.isfinite(other)
            greatest = np.abs(other[finite]).max(initial=0.0)
            worst = np.abs(mine[finite] - other[finite]).max(initial=0.0)
            assert worst <= bound * greatest, f"{label}: {worst:.3e} against {greatest:.3e}"
        elif isinstance(theirs, dict):
            assert list(ours) == list(theirs), label
            for key in theirs:
                self.agree(ours[key], theirs[key], f"{label}.{key}", bound)
        elif isinstance(theirs, tuple | list):
            assert len(ours) == len(theirs), label
            for i, (x, y) in enumerate(zip(ours, theirs, strict=True)):
                self.agree(x, y, f"{label}[{i}]", bound)
        else:
            assert ours == theirs, label

    def expression(self, source: str) -> None:
        """An expression over `torch`, `np`, `x` (zeros [2, 3]) and `g` (which requires gradients)
        has the same text in both, or raises the same kind of error."""
        theirs, ours = (_outcome(system, source) for system in (self.torch, frontend))
        if isinstance(theirs, Exception):
            assert isinstance(ours, type(theirs)), f"{ours!r}, not {theirs!r}"
        else:
            assert ours == theirs

    def function(
        self,
        call: Callable[[Any, Any], Any],
        *arguments: Any,
        modes: Sequence[str] = MODES,
        bound: float = BOUND,
        gradients: bool = True,
    ) -> None:
        """`call(system, *tensors)` gives the same, and so do the gradients of the float arguments.
        `system` is torch or frontend; `arguments` are NumPy arrays (nested as you like)."""
        their_tensors = self.theirs(arguments)
        expected = _quiet(lambda: call(self.torch, *their_tensors))
        weights = self._weights(expected)
        self._backward(self.torch, expected, weights, gradients)
        for mode in modes:
            taken = self.ours(arguments)
            run = lambda *tensors: call(frontend, *tensors)  # noqa: E731
            run = run if mode == "eager" else frontend.compile(run)
            result = _quiet(lambda run=run, taken=taken: run(*taken))
            self.agree(result, expected, mode, bound)
            self._backward(frontend, result, weights, gradients)
            if gradients:
                pairs = zip(_leaves(taken), _leaves(their_tensors), strict=True)
                self._gradients(pairs, f"{mode} gradient of argument", bound)

    def module(
        self,
        make: Callable[[Any], Any],
        *arguments: Any,
        keywords: dict[str, Any] | None = None,
        training: Sequence[bool] = (True, False),
        modes: Sequence[str] = MODES,
        bound: float = BOUND,
        repeat: int = 1,
    ) -> None:
        """`make(nn)` gives modules with the same state dict, outputs, gradients and buffers, train
        and eval; ours loads theirs' state dict. `repeat` calls in a row before comparing."""
        for train in training:
            self.torch.manual_seed(0)
            theirs = make(self.torch.nn).train(train)
            mine = make(frontend.nn).train(train)
            state = {k: _array(v, keep=True) for k, v in theirs.state_dict().items()}
            shapes = {k: tuple(v.shape) for k, v in mine.state_dict().items()}
            assert shapes == {k: v.shape for k, v in state.items()}, "state dict"
            mine.load_state_dict({k: frontend.tensor(v) for k, v in state.items()})
            self._compare_modules(
                theirs, mine, arguments, keywords or {}, modes, bound, repeat, f"train={train}"
            )

    def _compare_modules(
        self, theirs: Any, mine: Any, arguments: Any, keywords: Any, modes: Any, bound: float,
        repeat: int, label: str,
    ) -> None:  # fmt: skip
        tensors, named = self.theirs(arguments), self.theirs(keywords)
        for _ in range(repeat):
            expected = _quiet(lambda: theirs(*tensors, **named))
        weights = self._weights(expected)
        self._backward(self.torch, expected, weights, True)
        for mode in modes:
            module = copy.deepcopy(mine)
            run = module if mode == "eager" else frontend.compile(module)
            taken, options = self.ours(arguments), self.ours(keywords)
            for _ in range(repeat):
                result = _quiet(lambda run=run, x=taken, options=options: run(*x, **options))
            where = f"{label} {mode}"
            self.agree(result, expected, f"{where} output", bound)
            self._backward(frontend, result, weights, True)
            pairs = zip(_leaves((taken, options)), _leaves((tensors, named)), strict=True)
            self._gradients(pairs, f"{where} gradient of argument", bound)
            for (name, p), (other, q) in zip(
                module.named_parameters(), theirs.named_parameters(), strict=True
            ):
                assert name == other
                self._gradients([(p, q)], f"{where} gradient of {name}", bound)
            for name, q in theirs.named_buffers():
                self.agree(module.get_buffer(name), q, f"{where} buffer {name}", bound)

    def refusal(self, call: Callable[[Any], Any]) -> None:
        """`call(system)` raises PyTorch's type of exception, or, where PyTorch does not, gives what
        PyTorch gives. `system` is torch or frontend."""
        try:
            theirs = _quiet(lambda: call(self.torch))
        except Exception as expected:
            singular = isinstance(expected, self.torch.linalg.LinAlgError)
            kind = frontend.linalg.LinAlgError if singular else type(expected)
            with pytest.raises(kind):
                _quiet(lambda: call(frontend))
        else:
            ours = _quiet(lambda: call(frontend))
            if isinstance(theirs, self.torch.Tensor):
                self.agree(ours, theirs)
            else:
                assert shown(ours) == shown(theirs)

    def same_words(self, case: Refusal) -> None:
        """Both raise the case's error, and PyTorch's text is the beginning of ours."""
        with pytest.raises(case.error) as theirs:
            _quiet(lambda: case.call(self.torch))
        with pytest.raises(case.error) as ours:
            _quiet(lambda: case.call(frontend))
        assert str(ours.value).startswith(str(theirs.value).strip().partition(", not ")[0])

    def script(self, run: Callable[[Any, list[Any]], Any]) -> tuple[list[Any], Exception | None]:
        """`run(system, log)` logs the same events, gives the same warnings, and returns the same or
        raises torch's type of exception; the events and the exception. Tensors are logged as
        rounded lists, objects by their type."""
        expected, error = _events(self.torch, run)
        actual, raised = _events(frontend, run)
        assert actual == expected
        assert (raised is None) == (error is None), (raised, error)
        if error is not None:
            assert isinstance(raised, type(error)), (raised, error)
        return expected, error

    def _weights(self, expected: Any) -> list[np.ndarray]:
        """What each float output is multiplied with before backward."""
        outputs = [x for x in _leaves(expected) if x.is_floating_point()]
        return [self.normal(*x.shape).astype(_array(x, keep=True).dtype) for x in outputs]

    def _backward(self, system: Any, outputs: Any, weights: Any, wanted: bool) -> None:
        floats = [x for x in _leaves(outputs) if x.is_floating_point()]
        pairs = [(x, system.tensor(w)) for x, w in zip(floats, weights) if x.requires_grad]
        if pairs and wanted:
            system.autograd.backward([x for x, _ in pairs], [w for _, w in pairs])

    def _gradients(self, pairs: Any, label: str, bound: float) -> None:
        for i, (mine, theirs) in enumerate(pairs):
            if theirs.grad is None:
                assert mine.grad is None, f"{label} {i} should be None"
            else:
                assert mine.grad is not None, f"{label} {i} is None"
                self.agree(mine.grad, theirs.grad, f"{label} {i}", bound)


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, np.ndarray):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_mapped(item, change) for item in value)
    return value


def _leaves(value: Any) -> list[Any]:
    """The tensors of either system in nested containers."""
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value] if hasattr(value, "requires_grad") else []


def _differentiable(tensor: Any) -> Any:
    return tensor.requires_grad_() if tensor.is_floating_point() else tensor


def _array(tensor: Any, keep: bool = False) -> np.ndarray:
    array = tensor.detach().cpu().numpy() if keep else tensor.detach().double().cpu().numpy()
    return np.asarray(array)


def _outcome(system: Any, source: str) -> str | Exception:
    x, g = system.zeros(2, 3), system.tensor([1.0, 2.0], requires_grad=True)
    try:
        return _quiet(lambda: repr(eval(source, {"torch": system, "np": np, "x": x, "g": g})))
    except Exception as error:
        return error


def _quiet(run: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run()


def shown(value: Any) -> Any:
    """A value as both systems give it: tensors as rounded lists, objects by their type."""
    if hasattr(value, "requires_grad"):
        return np.round(np.asarray(value.detach().numpy(), np.float64), 4).tolist()
    if isinstance(value, tuple | list):
        return [shown(item) for item in value]
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    return value if isinstance(value, int | float | str | None) else type(value).__name__


class _Log(list[Any]):
    """Events as they were when they were logged."""

    def append(self, event: Any) -> None:
        super().append(shown(event))


def _events(system: Any, run: Callable[[Any, list[Any]], Any]) -> tuple[list[Any], Any]:
    log = _Log()
    raised = result = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = run(system, log)
        except Exception as error:
            raised = error
    return [*log, [item.category.__name__ for item in caught], shown(result)], raised


@pytest.fixture
def peer() -> Iterator[Peer]:
    import torch

    yield Peer(torch)
    # A default device of torch is a mode around every function, under which `l1_loss` forgets its
    # weights (2.13): no test leaves one behind.
    torch.set_default_device(None)

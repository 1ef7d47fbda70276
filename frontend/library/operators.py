"""Operators of one's own: what they hold, and all there are, by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from frontend.autograd.function import Function
from frontend.engine.tensors.fake_mode import types_alone
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor

_KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
_AUTOGRAD = ("Autograd", "AutogradCPU")


class Operator:
    """One operator: its name, schema, kernels, and gradient rule. Rules may come before it is
    defined; it can be called, and is seen in `torch.ops`, from then on."""

    def __init__(self, namespace: str, name: str):
        self.namespace = namespace
        self.name = name
        self.schema: str | None = None
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None

    @property
    def qualified(self) -> str:
        return f"{self.namespace}::{self.name}"

    def kernel(self) -> Callable[..., Any]:
        """What runs on the CPU. Raises NotImplementedError where nothing is registered for it."""
        for key in _KEYS:
            if key in self.kernels:
                return self.kernels[key]
        raise NotImplementedError(
            f"Could not run '{self.qualified}' with arguments from the 'CPU' backend: it has "
            f"kernels for {sorted(self.kernels) or 'nothing'}"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fake = self.fake or self.kernels.get("Meta")
        if fake is not None and types_alone(*_tensors([args, *kwargs.values()])):
            return fake(*args, **kwargs)
        for key in _AUTOGRAD:
            if key in self.kernels:
                return self.kernels[key](*args, **kwargs)
        kernel = self.kernel()
        plain = "CPU" not in self.kernels and "CompositeExplicitAutograd" not in self.kernels
        recorded = STATE.grad_enabled and any(
            isinstance(x, Tensor) and x.requires_grad for x in args
        )
        if not recorded or (plain and self.backward is None):
            return kernel(*args, **kwargs)
        return _differentiable(self, kernel, kwargs).apply(*args)


def _tensors(value: Any) -> list[Tensor]:
    """The tensors among arguments, in lists and tuples too."""
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in _tensors(item)]
    return [value] if isinstance(value, Tensor) else []


def _differentiable(
    operator: Operator, kernel: Callable[..., Any], kwargs: dict[str, Any]
) -> type[Function]:
    """A custom Function that runs the kernel and has the operator's rule as its backward."""

    def forward(ctx: Any, *args: Any) -> Any:
        result = kernel(*args, **kwargs)
        if operator.setup_context is not None:
            operator.setup_context(ctx, args, result)
        return result

    def backward(ctx: Any, *gradients: Any) -> Any:
        if operator.backward is None:
            raise RuntimeError(
                f"Trying to backward through {operator.qualified} but no autograd formula was "
                "registered. Please use register_autograd to add one."
            )
        return operator.backward(ctx, *gradients)

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(f"GeneratedBackwardFor_{operator.namespace}_{operator.name}", (Function,), members)


OPERATORS: dict[str, dict[str, Operator]] = {}
"""Every operator that was defined or got a rule, by namespace and name."""


def operator_of(op: Any) -> Operator:
    """The operator of a name "namespace::name", of what `torch.ops` shows, or of a `custom_op`: an
    undefined one where there is none yet. Raises ValueError for a name without a namespace."""
    known = getattr(op, "operator", op)
    if isinstance(known, Operator):
        return known
    namespace, colons, name = str(op).partition("::")
    name = name.partition("(")[0].partition(".")[0]
    if not colons or not re.fullmatch(r"\w+", name):
        raise ValueError(f"Expected an operator's name as 'namespace::name', got {op!r}")
    return OPERATORS.setdefault(namespace, {}).setdefault(name, Operator(namespace, name))

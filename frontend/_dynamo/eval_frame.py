"""`torch._dynamo.eval_frame`: the class of compiled Modules."""

from __future__ import annotations

from typing import Any

from frontend.engine.compiled.compiler import CompiledFunction
from frontend.engine.compiled.options import Options
from frontend.nn.modules.module import Module

_HOOKS = (
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs",
)  # fmt: skip


class OptimizedModule(CompiledFunction, Module):
    """What `compile` makes of a Module: a Module around it, `_orig_mod`, with its attributes and
    the hooks it runs, and with names of parameters below it (`_orig_mod.weight` in state dicts). A
    call runs native code."""

    training: Any = property(
        lambda self: self._orig_mod.training,
        lambda self, mode: setattr(self._orig_mod, "training", mode),
    )  # fmt: skip

    def __init__(self, module: Module, options: Options):
        Module.__init__(self)
        state = self.__dict__
        for name in ("training", "_is_full_backward_hook"):
            state.pop(name, None)
        state.update({name: module.__dict__[name] for name in _HOOKS if name in module.__dict__})
        CompiledFunction.__init__(self, module, options)
        self._modules["_orig_mod"] = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The call itself."""
        return self(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__.get("_modules", {}).get("_orig_mod")
        if module is None:
            raise AttributeError(f"'OptimizedModule' object has no attribute {name!r}")
        return module if name == "_orig_mod" else getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """An attribute of the Module, but for what is kept here."""
        if "_orig_mod" not in self._modules or (name[:1] == "_" and name in self.__dict__):
            object.__setattr__(self, name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*Module.__dir__(self), *dir(self._orig_mod)})

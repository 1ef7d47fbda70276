"""PyTorch's operators and their arguments, in terms of the frontend.

In: entries of PyTorch's database, and samples. Out: the frontend's function of the same name, or
the database's own small function with `torch` standing for the frontend; tensors through NumPy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

import frontend


class Absent(Exception):
    """The frontend has no such name, dtype or layout."""


SPACES = (
    "torch", "torch.Tensor", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft",
    "torch.signal.windows", "torch.masked", "torch.sparse",
)  # fmt: skip
"""Where PyTorch's functions are looked for by identity."""


def place(path: str) -> Any:
    """What the frontend has under one of PyTorch's names (`torch.linalg.inv`)."""
    value: Any = frontend
    for part in path.split(".")[1:]:
        try:
            value = getattr(value, part)
        except (AttributeError, ModuleNotFoundError):
            raise Absent(path) from None
    return value


@cache
def _names() -> dict[int, str]:
    import torch

    names: dict[int, str] = {}
    for space in SPACES:
        target: Any = torch
        for part in space.split(".")[1:]:
            target = getattr(target, part)
        for name in dir(target):
            names.setdefault(id(getattr(target, name)), f"{space}.{name}")
    return names


def ours_of(op: Any) -> Callable[..., Any]:
    """The frontend's function for an entry of the database. Raises Absent."""
    function = op.op
    if isinstance(function, FunctionType) and function.__module__.startswith("torch.testing."):
        return rebound(function)
    path = f"torch.{op.name}"
    return named(function) if _at(path) is not function else place(path)


def _at(path: str) -> Any:
    import torch

    value: Any = torch
    for part in path.split(".")[1:]:
        value = getattr(value, part, None)
    return value


def named(function: Any) -> Any:
    """The frontend's function of the same name as one of PyTorch's."""
    path = _names().get(id(function))
    if path is None:
        name = getattr(function, "__name__", repr(function))
        is_method = "method" in type(function).__name__ or "slot" in type(function).__name__
        path = f"torch.Tensor.{name}" if is_method else f"torch.{name}"
    return place(path)


def rebound(function: FunctionType) -> Any:
    """A function of PyTorch's tests, with the frontend for `torch`."""
    import torch

    names = {**function.__globals__, "torch": frontend, "F": frontend.nn.functional}
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if name == "wrapper_set_seed":
            names[name] = seeded
            continue
        if isinstance(value, FunctionType) and value.__module__.startswith("torch.testing."):
            names[name] = rebound(value)
        elif callable(value) and id(value) in _names():
            names[name] = named(value)
    cells = tuple(CellType(_cell(cell.cell_contents)) for cell in function.__closure__ or ())
    defaults = tuple(map(_cell, function.__defaults__ or ()))
    bound = FunctionType(function.__code__, names, function.__name__, defaults, cells)
    bound.__kwdefaults__ = function.__kwdefaults__
    assert torch is not frontend
    return bound


def seeded(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """What the database's own does: a call after the seed was set (ahead of compiled calls)."""
    if not frontend.compiler.is_compiling():
        frontend.manual_seed(42)
    return function(*args, **keywords)


def _cell(value: Any) -> Any:
    if isinstance(value, FunctionType) and value.__module__.startswith("torch.testing."):
        return rebound(value)
    if callable(value) and not inspect.isclass(value):
        return named(value)
    return converted(value)


def converted(value: Any, memory: Memory | None = None) -> Any:
    """An argument of the database's as the frontend takes it; tensors over one memory share it
    here too. Raises Absent."""
    import torch

    memory = Memory() if memory is None else memory
    if isinstance(value, torch.Tensor):
        return tensor(value, memory)
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return place(str(value))
    if isinstance(value, torch.device):
        return frontend.device(str(value))
    if isinstance(value, torch.Size):
        return frontend.Size(value)
    if isinstance(value, torch.Generator):
        return frontend.Generator()
    if is_dataclass(value):
        named_fields = {
            each.name: converted(getattr(value, each.name), memory) for each in fields(value)
        }
        return place(f"torch.nn.{type(value).__name__}")(**named_fields)
    if isinstance(value, torch.nn.Module):
        return place(f"torch.nn.{type(value).__name__}")()
    if isinstance(value, tuple | list):
        items = [converted(item, memory) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: converted(item, memory) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*map(converted, (value.start, value.stop, value.step)))
    if isinstance(value, FunctionType) and value.__module__.startswith("torch.testing."):
        return rebound(value)
    if isinstance(value, BuiltinFunctionType | FunctionType) and id(value) in _names():
        return named(value)
    assert not isinstance(value, ModuleType)
    return value


class Memory:
    """Copies of the memory of PyTorch's tensors, one of each: those over one memory, and several
    elements in one place, are so on the other side too."""

    def __init__(self) -> None:
        self._copies: dict[tuple[int, str], np.ndarray] = {}

    def like(self, value: Any) -> np.ndarray:
        """The numbers of a tensor, laid out in memory as its own are."""
        plain = value.detach()
        if plain.is_conj() or plain.is_neg():
            return array(plain).copy()
        held = plain.untyped_storage()
        key = held.data_ptr(), str(plain.dtype)
        if key not in self._copies:
            count = held.nbytes() // plain.element_size()
            whole = array(plain.as_strided((count,), (1,), 0))
            narrow = frontend.bfloat16.numpy if plain.dtype == _bfloat16() else whole.dtype
            self._copies[key] = whole.astype(narrow)
        copy = self._copies[key]
        steps = tuple(step * copy.itemsize for step in plain.stride())
        if not plain.numel():
            return np.empty(tuple(plain.shape), copy.dtype)
        places = zip(plain.shape, plain.stride())
        if plain.storage_offset() + sum((n - 1) * step for n, step in places) >= copy.size:
            return array(plain).copy()  # the memory was made smaller than the tensor
        begin = plain.storage_offset() * copy.itemsize
        return np.ndarray(tuple(plain.shape), copy.dtype, copy, begin, steps)


def _bfloat16() -> Any:
    import torch

    return torch.bfloat16


def tensor(value: Any, memory: Memory) -> Any:
    """One of PyTorch's tensors as the frontend's, leaf or not as it is."""
    import torch

    if value.layout != torch.strided:
        raise Absent(str(value.layout))
    kind = place(str(value.dtype))
    if not isinstance(kind, frontend.dtype):
        raise Absent(str(value.dtype))
    if value.device.type != "cpu":
        result = frontend.empty(tuple(value.shape), dtype=kind, device=str(value.device))
    elif value.dim() > 64:
        raise Absent("tensors of more than 64 dimensions")
    else:
        result = frontend.from_numpy(memory.like(value))
    result = result if result.dtype == kind else result.to(kind)
    return result.requires_grad_() if value.requires_grad else result


def array(value: Any) -> np.ndarray:
    """The numbers of a tensor of PyTorch's; bfloat16 as float32, which holds them."""
    import torch

    value = value.float() if value.dtype == torch.bfloat16 else value
    return np.asarray(value.numpy(force=True))

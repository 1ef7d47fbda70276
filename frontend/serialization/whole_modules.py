"""Modules and other objects saved whole: a pickle of the object, which names its classes.

Reading one imports and runs nothing, where all classes and functions that it names are allowed
(`safe_globals`): those are made and called, nothing else. With `weights_only=False` Python's own
unpickler reads it, which runs whatever the file says.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from frontend.engine.tensors.epoch import HookRegistry, Registry
from frontend.engine.tensors.tensor import Tensor, make
from frontend.nn.parameter import Parameter
from frontend.serialization import torch_names
from frontend.serialization.allowed import get_safe_globals
from frontend.serialization.budget import Budget
from frontend.serialization.errors import CheckpointError, Refused
from frontend.serialization.pickle_machine import Call, PickleMachine
from graphc.ir.types import DType, TensorType

PICKLED = b"graphc.pickled module.1\n"
"""What a file begins with that holds pickled objects."""


def written(obj: Any, protocol: int, strange: CheckpointError | None = None) -> bytes:
    """The content of a file. Where pickle does not take an object of a container, raises `strange`,
    which names its key."""
    try:
        return PICKLED + pickle.dumps(obj, protocol=protocol)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        if strange is None:
            raise
        raise strange from error


def read(data: bytes, name: str, weights_only: bool | None) -> Any:
    """The object in a file. Raises CheckpointError, naming the file, where it names what is not
    allowed."""
    content = io.BytesIO(data[len(PICKLED) :])
    if weights_only is False:
        return pickle.load(content)
    allowed = get_safe_globals()
    table = {**_TABLE, **{f"{item.__module__}.{item.__qualname__}": item for item in allowed}}
    kinds = (Registry, HookRegistry, *allowed)
    budget = Budget(len(data), len(data))
    machine = PickleMachine(table, _no_storages, _state_setter(allowed), budget, kinds)
    try:
        return machine.run(content)
    except Refused as error:
        raise CheckpointError(
            f"{name} holds pickled objects: loading it would run code. {error}",
            hint="with safe_globals([Class, …]) around load, naming its classes; load(..., "
            "weights_only=False) if you trust the file; better, save state_dict()",
        ) from error


def _no_storages(identity: Any) -> Any:
    raise Refused("it asks for a storage, which a whole module has none of")


def _state_setter(allowed: list[Any]) -> Any:
    """BUILD for objects of the allowed classes, and for plain data."""

    def set_state(target: Any, state: Any) -> None:
        if not any(type(target) is kind for kind in allowed):
            if type(target) in (Tensor, Parameter) and type(state) is dict:
                vars(target).update(state)  # what the user put on it
                return
            torch_names.set_state(target, state)
        elif hasattr(target, "__setstate__"):
            target.__setstate__(state)
        elif type(state) is dict:
            vars(target).update(state)
        else:
            raise Refused(f"a {type(target).__name__} with a strange state")

    return set_state


def _tensor(kind: Any, array: Any, requires_grad: Any) -> Tensor:
    """A Tensor or Parameter over an array of the file."""
    if kind not in (None, Tensor, Parameter) or type(array) is not np.ndarray:
        raise Refused("a tensor of a class of its own")
    if type(requires_grad) is not bool:
        raise Refused("a tensor that is strangely written")
    tensor = make(array, TensorType.of(array))
    if kind is Parameter:
        return Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


_TABLE = torch_names.Table(
    torch_names.TABLE
    | {
        "frontend.nn.parameter._rebuilt": Call("_rebuilt", _tensor),
        "frontend.nn.parameter.Parameter": Parameter,
        "frontend.engine.tensors.tensor._unpickled": Call("_unpickled", _tensor),
        "frontend.engine.tensors.tensor.Tensor": Tensor,
        "frontend.engine.tensors.epoch.Registry": Registry,
        "frontend.engine.tensors.epoch.HookRegistry": HookRegistry,
        "graphc.ir.types.DType": Call("DType", DType),
        "frontend.engine.tensors.dtypes.device": torch_names.TABLE["torch.device"],
        "frontend.engine.tensors.dtypes.Size": torch_names.TABLE["torch.Size"],
    }
)

"""`frontend.cuda`: what a script asks before it uses CUDA, answered: there is none. What would need
it raises the error PyTorch raises where it was built without."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NoReturn

from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.functions.tensor_types import tensortype
from frontend.namespace.stubs import stubs

globals().update(stubs("cuda"))


def get_rng_state_all() -> list[Any]:
    """No states: there is no device."""
    return []


def _absent(*args: Any, **kwargs: Any) -> NoReturn:
    """Raises AssertionError: there is no CUDA."""
    raise AssertionError("Torch not compiled with CUDA enabled")


init = current_device = synchronize = get_device_name = get_device_properties = _absent
get_device_capability = set_device = get_rng_state = set_rng_state = mem_get_info = _absent
current_stream = default_stream = reset_peak_memory_stats = ipc_collect = _absent


class device:
    """A context that makes a CUDA device the current one. Raises AssertionError when entered."""

    def __init__(self, device: Any):
        self.idx = device

    def __enter__(self) -> None:
        _absent()

    def __exit__(self, *error: Any) -> None:
        pass


class Stream:
    """Raises RuntimeError: there is no CUDA."""

    def __init__(self, *args: Any, **kwargs: Any):
        raise RuntimeError(f"torch.cuda.{type(self).__name__} requires CUDA support")


class Event(Stream):
    """Raises RuntimeError: there is no CUDA."""


class CUDAGraph(Stream):
    """Raises RuntimeError: there is no CUDA."""


class ExternalStream(Stream):
    """Raises RuntimeError: there is no CUDA."""


class StreamContext:
    """A block on a stream: with None, which is all there is, a plain block."""

    def __init__(self, stream: Any):
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            _absent()

    def __exit__(self, *error: Any) -> None:
        pass


def stream(stream: Any) -> StreamContext:
    """A block on a stream; None is a plain block."""
    return StreamContext(stream)


def set_rng_state_all(new_states: Any) -> None:
    """Nothing to set, for no states. Raises for any: there is no CUDA."""
    if len(new_states):
        _absent()


graph = graph_pool_handle = reset_max_memory_allocated = _absent
default_generators: tuple[Any, ...] = ()
_initialized = False
OutOfMemoryError = MemoryError


for _dtype, _name in SCALAR_NAMES.items():
    # Types no tensor is an instance of: `isinstance(x, torch.cuda.FloatTensor)` is False.
    globals()[f"{_name}Tensor"] = tensortype(_dtype, is_cuda=True)


def __getattr__(name: str) -> Any:
    """`amp` and `nvtx` are imported when first asked for."""
    if name in ("amp", "nvtx"):
        return import_module(f"frontend.cuda.{name}")
    raise AttributeError(f"module 'frontend.cuda' has no attribute {name!r}")

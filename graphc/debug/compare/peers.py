"""The same file by another package, in a process of its own: PyTorch's, eager or compiled, or JAX.

in : FILE.py:NAME, its inputs, and the name of a peer
out: an `ObjectRun` of what the file's function is there

For PyTorch the file is imported as it stands; `import frontend` gives the package torch there, and
what the file compiles itself is unwrapped, so that the peer decides. JAX has other functions: a
file that has a twin `NAME_jax` of its function, over arrays, is asked for that one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from graphc.debug.load import declared_inputs, named_object
from graphc.debug.program import LoadError, ProgramOptions
from graphc.debug.traced import DrawnInput, ObjectRun, drawn

Array = np.ndarray[Any, Any]
STANDS_FOR = "frontend"
"""The package whose names PyTorch's are the model of."""


@contextlib.contextmanager
def peer_run(
    peer: str, reference: str, inputs: Sequence[DrawnInput], program: ProgramOptions, threads: int
) -> Iterator[ObjectRun]:
    """The object by a peer, for as long as its file stays imported. Raises LoadError for a file
    that has nothing for this peer, ModuleNotFoundError where the peer is not installed."""
    with PEERS[peer](reference, inputs, program, threads) as run:
        yield run


@contextlib.contextmanager
def _torch(
    reference: str, inputs: Sequence[DrawnInput], program: ProgramOptions, threads: int,
    compiled: bool = False,
) -> Iterator[ObjectRun]:  # fmt: skip
    torch = importlib.import_module("torch")
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    plain = ProgramOptions(program.arguments)
    with _standing_in(torch), named_object(reference, plain) as (_, _, named):
        function = getattr(named, "_torchdynamo_orig_callable", named)
        arrays = drawn(inputs or declared_inputs(function))
        tensors = [torch.from_numpy(np.array(array)) for array in arrays]
        function = torch.compile(function) if compiled else function
        yield ObjectRun(lambda: function(*tensors), _arrays, lambda: (0, 0))


@contextlib.contextmanager
def _jax(
    reference: str, inputs: Sequence[DrawnInput], program: ProgramOptions, threads: int
) -> Iterator[ObjectRun]:
    jax = importlib.import_module("jax")
    with named_object(f"{reference}_jax", program) as (_, _, named):
        arrays = [jax.numpy.asarray(array) for array in drawn(inputs or declared_inputs(named))]
        function = jax.jit(named)
        yield ObjectRun(
            lambda: jax.block_until_ready(function(*arrays)),
            lambda result: [np.asarray(x) for x in jax.tree_util.tree_leaves(result)],
            lambda: (0, 0),
        )


PEERS: dict[str, Callable[..., Any]] = {
    "torch": _torch, "torch.compile": functools.partial(_torch, compiled=True), "jax": _jax,
}  # fmt: skip


def check_peers(names: Sequence[str]) -> None:
    """Raises LoadError for a name that is no peer's."""
    unknown = [name for name in names if name not in PEERS]
    if unknown:
        raise LoadError(f"no peer is named {', '.join(unknown)}", hint=f"one of {', '.join(PEERS)}")


def _arrays(result: Any) -> list[Array]:
    """The tensors of a result of PyTorch's, in order."""
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, list | tuple):
        return [array for part in result for array in _arrays(part)]
    return [result.detach().cpu().numpy()] if hasattr(result, "detach") else []


@contextlib.contextmanager
def _standing_in(package: ModuleType) -> Iterator[None]:
    """`import frontend`, and all below it, gives `package`."""
    finder = _Finder(package.__name__)
    taken = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_ours(name)}
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _is_ours(name)]:
            del sys.modules[name]
        sys.modules.update(taken)


def _is_ours(name: str) -> bool:
    return name == STANDS_FOR or name.startswith(f"{STANDS_FOR}.")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of `frontend` as those of another package that have the same names."""

    def __init__(self, package: str):
        self.package = package
        self._specs: dict[str, Any] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.machinery.ModuleSpec(name, self) if _is_ours(name) else None

    def create_module(self, spec: Any) -> ModuleType:
        module = importlib.import_module(self.package + spec.name.removeprefix(STANDS_FOR))
        self._specs[module.__name__] = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._specs[
            module.__name__
        ]  # the import machinery gave it the other name's

"""`torch.compiler`: compiling, and asking whether that is what happens."""

from __future__ import annotations

from typing import Any

from frontend.engine.compiled.compiler import compile
from frontend.engine.compiled.eager_parts import disable, is_compiling
from frontend.engine.compiled.packed_copies import PACKED
from frontend.engine.compiled.stance import set_stance
from frontend.engine.sizes.size_rules import mark_dynamic, mark_static
from frontend.export.capture import EXPORTING

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "get_packing_limit", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends",
    "mark_dynamic", "mark_static", "nested_compile_region", "reset", "set_packing_limit",
    "set_stance", "substitute_in_graph",
]  # fmt: skip


def is_dynamo_compiling() -> bool:
    """Whether a trace is under way."""
    return is_compiling()


def is_exporting() -> bool:
    """Whether `torch.export.export` or `torch.onnx.export` traces."""
    return EXPORTING.under_way


def allow_in_graph(fn: Any) -> Any:
    """The function, or functions: a trace runs all Python."""
    return fn


nested_compile_region = assume_constant_result = allow_in_graph


def substitute_in_graph(original_fn: Any, **options: Any) -> Any:
    """A decorator that leaves both functions as they are: a trace runs the original's Python."""
    return allow_in_graph


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The one there is."""
    return ["graphc"]


def reset() -> None:
    """Nothing to forget: each compiled function has its own specializations."""


def cudagraph_mark_step_begin() -> None:
    """Nothing to mark: there are no CUDA graphs."""


def get_packing_limit() -> int:
    """Bytes that packed copies of weights may take together, in this process."""
    return PACKED.limit


def set_packing_limit(limit: int) -> None:
    """Let packed copies of weights take `limit` bytes together (1 GiB at the start), in this
    process: the least recently used go where it is less than there is. With 0 none are kept.
    Those of frozen weights alone do not count. Raises TypeError for anything but a number of bytes,
    ValueError for a negative one."""
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"set_packing_limit() takes a number of bytes, not {limit!r}")
    if limit < 0:
        raise ValueError(f"set_packing_limit() takes 0 bytes or more, not {limit}")
    PACKED.limit = limit
    PACKED.make_room(0)

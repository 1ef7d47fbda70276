"""`all_to_all`: every process has something else for each other one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.distributed import exchange
from frontend.distributed.collectives import Filled, launched
from frontend.distributed.groups import ProcessGroup, resolved
from frontend.distributed.world import Work
from frontend.engine.tensors.tensor import Tensor


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Output m becomes what process m has for this one in its list. Shapes may differ from process
    to process, but what is sent must fit what is expected."""
    chosen = resolved(group)
    if chosen is None:
        return None
    inputs = Filled("all_to_all()", input_tensor_list, False)
    filled = Filled("all_to_all()", output_tensor_list, True)
    for listed in (inputs, filled):
        if len(listed.tensors) != chosen.size():
            raise ValueError(
                f"all_to_all: {len(listed.tensors)} tensors for {chosen.size()} processes"
            )
    return _all_to_all(chosen, "all_to_all", filled, filled.flat, inputs.flat, async_op)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """As `all_to_all`, of tensors that are cut along dimension 0: evenly, or in these sizes."""
    chosen = resolved(group)
    if chosen is None:
        return None
    inputs = Filled("all_to_all_single()", input, False)
    filled = Filled("all_to_all_single()", output, True)
    outs = _cut("output", filled, output_split_sizes, chosen.size())
    ins = _cut("input", inputs, input_split_sizes, chosen.size())
    return _all_to_all(chosen, "all_to_all_single", filled, outs, ins, async_op)


def _cut(name: str, filled: Filled, sizes: Any, count: int) -> list[np.ndarray]:
    array, flat = filled.values[0], filled.flat[0]
    rows = array.shape[0] if array.ndim else 0
    if not sizes:
        if rows % count:
            raise ValueError(
                f"all_to_all_single: {rows} rows of {name} are no {count} equal parts; give "
                f"{name}_split_sizes"
            )
        sizes = [rows // count] * count
    if len(sizes) != count or sum(sizes) != rows:
        raise ValueError(
            f"all_to_all_single: {name}_split_sizes {list(sizes)} do not cut {rows} rows for "
            f"{count} processes"
        )
    width = flat.size // rows if rows else 0
    bounds = np.cumsum([0, *sizes]) * width
    return [flat[a:b] for a, b in itertools.pairwise(bounds)]


def _all_to_all(
    chosen: ProcessGroup, name: str, filled: Filled, outs: Any, ins: Any, async_op: bool
) -> Work | None:
    me = chosen.rank()
    if ins[me].nbytes != outs[me].nbytes or ins[me].dtype != outs[me].dtype:
        raise ValueError(
            f"{name}: this process sends itself {ins[me].nbytes} bytes of {ins[me].dtype} where "
            f"{outs[me].nbytes} of {outs[me].dtype} are expected"
        )
    own = ",".join(str(part.nbytes) for part in ins)
    return launched(
        chosen, f"{name}({filled.tensors[0].dtype})",
        lambda round: exchange.all_to_all(round, outs, ins), filled, async_op, own,
    )  # fmt: skip

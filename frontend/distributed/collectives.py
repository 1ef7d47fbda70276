"""`torch.distributed`'s collectives of tensors.

Every function is called by all processes of the group, on tensors of the same shapes and dtypes,
or all of them get a DistBackendError. `group` is all processes by default; ranks that are named
(`src`, `dst`) are those among all processes. With `async_op` the result is a `Work`, and what is
filled may be read after its `wait()`; otherwise it is None. A process that is not in the group does
nothing. Tensors are changed in place, off the tape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from frontend.distributed import exchange
from frontend.distributed.exchange import Round
from frontend.distributed.groups import ProcessGroup, resolved
from frontend.distributed.world import Work, current
from frontend.engine.tensors.memory_tracking import count_write
from frontend.engine.tensors.tensor import FROZEN, Tensor, make_writable


class ReduceOp(Enum):
    """How values of several processes become one."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # PyTorch's name for its members

_UFUNCS = {
    ReduceOp.SUM: np.add, ReduceOp.AVG: np.add, ReduceOp.PRODUCT: np.multiply,
    ReduceOp.MIN: np.minimum, ReduceOp.MAX: np.maximum, ReduceOp.BAND: np.bitwise_and,
    ReduceOp.BOR: np.bitwise_or, ReduceOp.BXOR: np.bitwise_xor,
}  # fmt: skip
_OF_INTEGERS = {ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR}


class Filled:
    """The arrays of tensors that a collective reads or fills, contiguous; `store` puts back what
    was computed in a copy, and counts the writes."""

    def __init__(self, what: str, tensors: Any, written: bool):
        tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"Invalid function argument. Expected parameter of {what} to be of type "
                    f"torch.Tensor or a list of them, but got {type(tensor).__name__} instead."
                )
            if written and tensor._frozen is not None:
                raise RuntimeError(FROZEN)
        self.tensors: list[Tensor] = tensors
        self.values = [tensor._array(what) for tensor in tensors]
        for value in self.values if written else ():
            if not value.flags.writeable:
                make_writable(value)
        contiguous = [v if v.flags.c_contiguous else v.copy(order="C") for v in self.values]
        self.flat = [array.reshape(-1) for array in contiguous]
        self.copied = [(v, c) for v, c in zip(self.values, contiguous) if v is not c]

    def store(self) -> None:
        for value, contiguous in self.copied:
            value[...] = contiguous
        for tensor in self.tensors:
            count_write(tensor._counter)

    def types(self) -> str:
        kinds = list(dict.fromkeys(str(tensor.tensor_type) for tensor in self.tensors))
        return kinds[0] if len(kinds) == 1 else f"[{', '.join(kinds)}]"


def launched(
    chosen: ProcessGroup, name: str, steps: Callable[[Round], Any], filled: Filled | None,
    async_op: bool, own: str = "",
) -> Work | None:  # fmt: skip
    """Begin a collective; wait for it unless it is asynchronous."""
    round = Round(chosen._members, name, own)

    def stored() -> Any:
        yield from steps(round)
        if filled is not None:
            filled.store()
            return filled.tensors
        return []

    work = current().start(name, stored(), chosen._timeout)
    if async_op:
        return work
    work.wait()
    return None


def reduction(op: Any, filled: Filled, size: int) -> tuple[Any, Any, str]:
    """The ufunc, what is done to the reduced parts, and the name."""
    try:
        chosen = ReduceOp(op)
    except ValueError:
        raise ValueError(f"op must be one of ReduceOp, not {op!r}") from None
    dtypes = {value.dtype for value in filled.values}
    for dtype in dtypes:
        floats = dtype.kind not in "iub"
        if chosen in _OF_INTEGERS and floats:
            raise RuntimeError(f"Cannot use ReduceOp.{chosen.name} with {dtype} tensors")
        if chosen in (ReduceOp.MIN, ReduceOp.MAX) and dtype.kind == "c":
            raise RuntimeError(f"Cannot use ReduceOp.{chosen.name} with {dtype} tensors")
        if chosen is ReduceOp.AVG and not floats:
            raise RuntimeError(f"Cannot use ReduceOp.AVG with {dtype} tensors")
    finish = None
    if chosen is ReduceOp.AVG:

        def finish(part: Any) -> None:
            np.divide(part, np.asarray(size, part.dtype), part)

    return _quiet(_UFUNCS[chosen]), finish, chosen.value


def _quiet(ufunc: Any) -> Any:
    def apply(a: Any, b: Any, out: Any) -> None:
        with np.errstate(all="ignore"):
            ufunc(a, b, out=out)

    return apply


def position(chosen: ProcessGroup, rank: Any, among: Any, name: str) -> int:
    """The place in the group of a rank that is named among all (or, `group_src`, in the group)."""
    if rank is None and among is None:
        if name == "src":
            raise ValueError("Must specify src or group_src")
        return 0
    if among is not None:
        if not 0 <= among < chosen.size():
            raise ValueError(f"group_{name}={among} is none of {chosen.size()} ranks")
        return int(among)
    if rank not in chosen._members.ranks:
        raise ValueError(f"Global rank {rank} is not part of group {chosen}")
    return chosen._members.ranks.index(rank)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all processes of the group have come here."""
    chosen = resolved(group)
    if chosen is None:
        return None
    return launched(chosen, "barrier()", exchange.barrier, None, async_op)


def monitored_barrier(
    group: Any = None, timeout: Any = None, wait_all_ranks: bool = False
) -> None:  # fmt: skip
    """`barrier`, with a timeout of its own. The error names the ranks that did not come."""
    work = barrier(group, async_op=True)
    if work is not None:
        work.wait(timeout)


def all_reduce(
    tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """`tensor` becomes the reduction of all processes' ones, the same bits on each. Values add as a
    binary tree over the ranks."""
    chosen = resolved(group)
    if chosen is None:
        return None
    filled = Filled("all_reduce()", tensor, True)
    ufunc, finish, named = reduction(op, filled, chosen.size())
    (flat,) = filled.flat
    return launched(
        chosen, f"all_reduce({filled.types()}, {named})",
        lambda round: exchange.all_reduce(round, flat, ufunc, finish), filled, async_op,
    )  # fmt: skip


def all_reduce_coalesced(
    tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """`all_reduce` of each of several tensors."""
    works = [all_reduce(tensor, op, group, async_op) for tensor in tensors]
    return works[-1] if works else None


def reduce(
    tensor: Tensor, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """As `all_reduce`, on `dst` alone."""
    chosen = resolved(group)
    if chosen is None:
        return None
    root = position(chosen, dst, group_dst, "dst")
    filled = Filled("reduce()", tensor, True)
    ufunc, finish, named = reduction(op, filled, chosen.size())
    return launched(
        chosen, f"reduce({filled.types()}, {named}, dst={chosen._members.ranks[root]})",
        lambda round: exchange.reduce(round, filled.flat[0], ufunc, root, finish),
        filled if chosen.rank() == root else None, async_op,
    )  # fmt: skip


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """`tensor` becomes that of the process `src`."""
    chosen = resolved(group)
    if chosen is None:
        return None
    root = position(chosen, src, group_src, "src")
    sends = chosen.rank() == root
    filled = Filled("broadcast()", tensor, not sends)
    return launched(
        chosen, f"broadcast({filled.types()}, src={chosen._members.ranks[root]})",
        lambda round: exchange.broadcast(round, filled.flat[0], root),
        None if sends else filled, async_op,
    )  # fmt: skip


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Each of `tensor_list` becomes the `tensor` of a process. Raises ValueError for another number
    of tensors than processes, or other types."""
    chosen = resolved(group)
    if chosen is None:
        return None
    mine = Filled("all_gather()", tensor, False)
    filled = listed("all_gather", "tensor_list", tensor_list, chosen, mine)
    return launched(
        chosen, f"all_gather({mine.types()})",
        lambda round: exchange.all_gather(round, filled.flat, mine.flat[0]), filled, async_op,
    )  # fmt: skip


def listed(
    name: str,
    parameter: str,
    tensors: Any,
    chosen: ProcessGroup,
    like: Filled,
    written: bool = True,
) -> Filled:
    """The tensors of a list with one for each process, like `like`."""
    filled = Filled(f"{name}()", tensors, written)
    if len(filled.tensors) != chosen.size():
        raise ValueError(
            f"{name}: {parameter} has {len(filled.tensors)} tensors for {chosen.size()} processes"
        )
    if any(t.tensor_type != like.tensors[0].tensor_type for t in filled.tensors):
        raise ValueError(
            f"{name}: {parameter} has tensors {filled.types()} where {like.types()} are exchanged"
        )
    return filled


def divided(name: str, whole: Filled, part: Filled, size: int) -> list[np.ndarray]:
    """The parts of a tensor that holds one for each process."""
    flat, small = whole.flat[0], part.flat[0]
    if len(flat) != size * len(small) or flat.dtype != small.dtype:
        raise ValueError(
            f"{name}: a tensor {whole.types()} does not hold {size} times {part.types()}"
        )
    return [flat[i * len(small) : (i + 1) * len(small)] for i in range(size)]


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """`output_tensor` becomes the `input_tensor` of all processes, one behind another."""
    chosen = resolved(group)
    if chosen is None:
        return None
    mine = Filled("all_gather_into_tensor()", input_tensor, False)
    filled = Filled("all_gather_into_tensor()", output_tensor, True)
    parts = divided("all_gather_into_tensor", filled, mine, chosen.size())
    return launched(
        chosen, f"all_gather_into_tensor({mine.types()})",
        lambda round: exchange.all_gather(round, parts, mine.flat[0]), filled, async_op,
    )  # fmt: skip


def gather(
    tensor: Tensor, gather_list: Sequence[Tensor] | None = None, dst: int | None = None,
    group: Any = None, async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """On `dst` each of `gather_list` becomes the `tensor` of a process."""
    chosen = resolved(group)
    if chosen is None:
        return None
    root = position(chosen, dst, group_dst, "dst")
    mine = Filled("gather()", tensor, False)
    filled = None
    if chosen.rank() == root:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        filled = listed("gather", "gather_list", gather_list, chosen, mine)
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    return launched(
        chosen, f"gather({mine.types()}, dst={chosen._members.ranks[root]})",
        lambda round: exchange.gather(round, filled.flat if filled else [], mine.flat[0], root),
        filled, async_op,
    )  # fmt: skip


def scatter(
    tensor: Tensor, scatter_list: Sequence[Tensor] | None = None, src: int | None = None,
    group: Any = None, async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """`tensor` becomes the one of `src`'s `scatter_list` that is meant for this process."""
    chosen = resolved(group)
    if chosen is None:
        return None
    root = position(chosen, src, 0 if src is None and group_src is None else group_src, "src")
    filled = Filled("scatter()", tensor, True)
    parts: list[Any] = []
    if chosen.rank() == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        parts = listed("scatter", "scatter_list", scatter_list, chosen, filled, False).flat
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    return launched(
        chosen, f"scatter({filled.types()}, src={chosen._members.ranks[root]})",
        lambda round: exchange.scatter(round, filled.flat[0], parts, root), filled, async_op,
    )  # fmt: skip


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """`output` becomes the reduction of the tensors that the processes' lists have for this one."""
    chosen = resolved(group)
    if chosen is None:
        return None
    filled = Filled("reduce_scatter()", output, True)
    inputs = listed("reduce_scatter", "input_list", input_list, chosen, filled, False)
    return _scattered("reduce_scatter", chosen, filled, inputs.flat, op, async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """As `reduce_scatter`, of one tensor that holds those for all processes."""
    chosen = resolved(group)
    if chosen is None:
        return None
    filled = Filled("reduce_scatter_tensor()", output, True)
    whole = Filled("reduce_scatter_tensor()", input, False)
    parts = divided("reduce_scatter_tensor", whole, filled, chosen.size())
    return _scattered("reduce_scatter_tensor", chosen, filled, parts, op, async_op)


def _scattered(
    name: str, chosen: ProcessGroup, filled: Filled, parts: Any, op: Any, async_op: bool
) -> Work | None:
    ufunc, finish, named = reduction(op, filled, chosen.size())
    return launched(
        chosen, f"{name}({filled.types()}, {named})",
        lambda round: exchange.reduce_scatter(round, filled.flat[0], parts, ufunc, finish),
        filled, async_op,
    )  # fmt: skip

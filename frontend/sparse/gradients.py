"""Gradients of tables of which rows were read, as sparse tensors: `Embedding(sparse=True)`.

in : a table [rows, features] that is a leaf, and the indices of the rows that are read
out: the rows, on the tape; the gradient of the table is a COO tensor of a row for each that was
     read, in the order in which they were read, several of one row beside each other as in PyTorch

Of what came before the table on the tape the gradient would have to be dense, so a table that is
computed has a dense one. An optimizer takes `summed` rows, and writes rows: no work is done for the
rows that were not read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.tape import Saves, record
from frontend.engine.tensors.dtypes import int64
from frontend.engine.tensors.memory_tracking import count_write
from frontend.engine.tensors.state import STATE, no_grad, tracing
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import creation
from frontend.functions.scatter import index_copy, index_select
from frontend.sparse import rules  # noqa: F401  what functions do with the gradients
from frontend.sparse.tensor import CooTensor
from graphc.errors import TraceError
from graphc.ir.builder import user_location
from graphc.ops.nn.embedding import NO_ROW
from graphc.ops.nn.embedding import embedding as rows_of


class _RowsRead:
    """The op of a tape node: rows of a table. Its rule reads the indices."""

    name = "embedding"
    node_name = "EmbeddingBackward0"

    def refuse_trace(self, location: Any = None) -> None:
        """Raise TraceError in a trace, whose gradients are dense."""
        if tracing():
            raise TraceError(
                "the gradient of embedding(sparse=True) is a sparse tensor: compiled code makes "
                "dense ones",
                hint="with sparse=False it is compiled, with a dense gradient",
                location=location or user_location(),
            )

    def vjp(
        self, gradient: Any, output: Any, table: Any, index: Any, *, padding: int
    ) -> tuple[Any, None]:
        def by_table() -> CooTensor:
            self.refuse_trace()
            features = table.shape[1]
            at, values = index.reshape(-1), gradient.reshape(-1, features)
            if padding != NO_ROW:
                kept = np.flatnonzero(at._array("a sparse gradient") != padding)
                chosen = creation.from_numpy(kept)
                at, values = at.index_select(0, chosen), values.index_select(0, chosen)
            # What is read may be changed afterwards: the gradient has indices of its own.
            where = (at.to(int64).clone().reshape(1, -1),)
            return CooTensor.of_parts(where, values, table.shape, where[0].shape[1] < 2)

        return by_table, None


_ROWS_READ = _RowsRead()
_READS: Any = ((False, True), (False,))


def rows_read(table: Tensor, index: Tensor, padding: int) -> Tensor:
    """Rows of a leaf [rows, features] at `index` [*]; the row `padding` takes no gradient."""
    with no_grad():
        rows = CONTEXT.apply(rows_of, (table, index), {"padding": padding, "by_frequency": False})
    saves = Saves((table.tensor_type, index.tensor_type), (rows[0].tensor_type,), _READS)
    record(_ROWS_READ, {"padding": padding}, (table, index), rows, saves)
    return rows[0]


# -- what is done with them ------------------------------------------------------------------------


def summed(gradient: Any) -> tuple[Tensor, Tensor]:
    """The rows [n] that a gradient has, each once, and their values [n, …], added up in the order
    in which they stand: the bits of the dense gradient."""
    unique = gradient.coalesce()
    return unique._indices_here[0], unique._values_here


def rows_at(x: Tensor, rows: Tensor) -> Tensor:
    """x[rows]."""
    picked: Tensor = index_select(x, 0, rows)
    return picked


def set_rows(x: Tensor, rows: Tensor, new: Tensor) -> None:
    """Write `new` [n, …] to the rows [n] of a tensor off the tape, and to no others."""
    array, source = x._value, new._value
    plain = STATE.mode is None and type(array) is np.ndarray and type(source) is np.ndarray
    if not plain or x._frozen is not None or not array.flags.writeable or x.dtype is not new.dtype:
        x._assign(index_copy(x.detach(), 0, rows, new))
        return
    try:
        array[rows._array("an update of rows")] = source
    finally:  # an interrupt that comes behind the write finds it counted
        count_write(x._counter)

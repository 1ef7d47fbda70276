"""LLVM IR of `lookup`: the entries of a small table that lanes number.

In: the function's text so far and a Let. Out: more lines. Where the processor takes the lanes of a
register in any order the table is one; elsewhere, and for scalars, the entry is selected bit by
bit.
"""

from __future__ import annotations

from graphc.codegen.llvm.function_text import FunctionText, literal, llvm_type
from graphc.codegen.llvm.registers import joined_lanes, lanes_of
from graphc.codegen.loop_ir.nodes import Let
from graphc.ir.types import DType

# By lanes of i32 in a register.
_PERMUTATIONS = {8: "llvm.x86.avx2.permd", 16: "llvm.x86.avx512.permvar.si.512"}


def emit_lookup(function: FunctionText, statement: Let) -> None:
    """Writes the choice of each lane's entry."""
    (index,) = statement.operands
    width = function.target.permuted_lanes
    if not width or index.type.is_scalar:
        function.alias(statement.result, _selected(function, statement))
        return
    piece = llvm_type(index.type.with_lanes(width))
    entries = statement.attribute * (width // len(statement.attribute))
    table = ", ".join(f"i32 {entry}" for entry in entries)
    joined, count = "", 0
    for start in range(0, index.type.lanes, width):
        part = lanes_of(function, "i32", function.text(index), index.type.lanes, start, width)
        arguments = [(piece, f"<{table}>"), (piece, part)]
        picked = function.temporary(function.intrinsic(_PERMUTATIONS[width], piece, arguments))
        joined = joined_lanes(function, "i32", joined, count, picked, width) if joined else picked
        count += width
    function.alias(statement.result, lanes_of(function, "i32", joined, count, 0, index.type.lanes))


def _selected(function: FunctionText, statement: Let) -> str:
    """One selection for each bit of an entry's number, the lowest first."""
    (index,) = statement.operands
    type, flag = llvm_type(index.type), llvm_type(index.type.with_dtype(DType.bool))
    candidates = [literal(entry, index.type) for entry in statement.attribute]
    bit = 1
    while len(candidates) > 1:
        masked = function.temporary(f"and {function.typed(index)}, {literal(bit, index.type)}")
        odd = function.temporary(f"icmp ne {type} {masked}, {literal(0, index.type)}")
        candidates = [
            function.temporary(f"select {flag} {odd}, {type} {high}, {type} {low}")
            for low, high in zip(candidates[::2], candidates[1::2], strict=True)
        ]
        bit *= 2
    return candidates[0]

"""LLVM IR of vectors in pieces that fill registers, and put together again."""

from __future__ import annotations

from graphc.codegen.llvm.function_text import FunctionText


def lanes_of(
    function: FunctionText, element: str, vector: str, have: int, start: int, count: int
) -> str:
    """`count` lanes of a vector of `have` from `start` on; those it does not have are undefined."""
    if (start, count) == (0, have):
        return vector
    lanes = range(start, start + count)
    picks = ", ".join(f"i32 {lane}" if lane < have else "i32 poison" for lane in lanes)
    return function.temporary(
        f"shufflevector <{have} x {element}> {vector}, <{have} x {element}> poison, "
        f"<{count} x i32> <{picks}>"
    )


def joined_lanes(
    function: FunctionText, element: str, low: str, have: int, high: str, count: int
) -> str:
    """The `have` lanes of one vector, then the `count` lanes of another."""
    wide = lanes_of(function, element, high, count, 0, have)
    picks = ", ".join(f"i32 {lane}" for lane in range(have + count))
    return function.temporary(
        f"shufflevector <{have} x {element}> {low}, <{have} x {element}> {wide}, "
        f"<{have + count} x i32> <{picks}>"
    )

"""The text of a content check in a driver."""

from __future__ import annotations


def check_text(
    n: int, type: str, least: str, greatest: str, bound: str | None, failed: int
) -> list[str]:
    """Lines that load the extremes, of this LLVM type, from two pointers. Where they are not within
    0 and `bound` (None: where the first is not 0) they leave both as i64 at `%verdict` and return
    `failed`. `n` makes names new. All threads read the same values, so they go on, or return,
    together."""
    lines = [
        f"  %least{n} = load {type}, ptr {least}",
        f"  %greatest{n} = load {type}, ptr {greatest}",
    ]
    if bound is None:
        lines.append(f"  %bad{n} = icmp ne {type} %least{n}, 0")
    else:
        lines += [
            f"  %low{n} = icmp slt {type} %least{n}, 0",
            f"  %high{n} = icmp sge {type} %greatest{n}, {bound}",
            f"  %bad{n} = or i1 %low{n}, %high{n}",
        ]
    lines += [f"  br i1 %bad{n}, label %fail{n}, label %next{n}", f"fail{n}:"]
    for offset, name in enumerate(("least", "greatest")):
        wide = f"%{name}{n}" if type == "i64" else f"%{name}{n}.64"
        if type != "i64":
            extend = "zext" if type == "i8" else "sext"
            lines.append(f"  {wide} = {extend} {type} %{name}{n} to i64")
        lines += [
            f"  %{name}{n}.at = getelementptr i64, ptr %verdict, i64 {offset}",
            f"  store i64 {wide}, ptr %{name}{n}.at",
        ]
    return [*lines, f"  ret i64 {failed}", f"next{n}:"]

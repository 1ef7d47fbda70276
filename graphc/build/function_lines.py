"""The lines of one LLVM function under emission."""

from __future__ import annotations


class FunctionLines:
    """Instructions and labels in order; values and labels have numbers of their own."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def emit(self, instruction: str) -> str:
        """An instruction with a value; the name of that."""
        self._count += 1
        self.lines.append(f"  %v{self._count} = {instruction}")
        return f"%v{self._count}"

    def do(self, instruction: str) -> None:
        """An instruction without a value."""
        self.lines.append(f"  {instruction}")

    def label(self, kind: str) -> str:
        """A new label, to be started."""
        self._count += 1
        return f"{kind}{self._count}"

    def start(self, label: str) -> None:
        """What follows stands behind this label."""
        self.lines.append(f"{label}:")

    def leave_if(self, condition: str, status: str) -> None:
        """Return this i64 where the condition holds."""
        leave, stay = self.label("leave"), self.label("stay")
        self.do(f"br i1 {condition}, label %{leave}, label %{stay}")
        self.start(leave)
        self.do(f"ret i64 {status}")
        self.start(stay)

    def at(self, pointer: str, offset: int | str, type: str = "i8") -> str:
        """A pointer so many elements behind another."""
        return self.emit(f"getelementptr {type}, ptr {pointer}, i64 {offset}")

    def text(self, head: str) -> str:
        """The function."""
        return "\n".join([f"{head} nounwind {{", *self.lines, "}", ""])

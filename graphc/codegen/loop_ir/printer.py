"""Loop IR → text."""

from __future__ import annotations

from typing import Any

from graphc.codegen.loop_ir.nodes import (
    Barrier,
    Block,
    For,
    If,
    Kernel,
    Let,
    Load,
    LoopValue,
    Prefetch,
    Statement,
    Store,
    VectorGather,
    VectorScatter,
    While,
)
from graphc.ir.types import DType


def print_kernel(kernel: Kernel) -> str:
    """The text of a kernel, its note as the first line inside."""
    first, *lines = _Printer().kernel(kernel, kernel.name)
    return "\n".join([first, f"  // {kernel.note}", *lines] if kernel.note else [first, *lines])


def _attribute_text(attribute: Any) -> str:
    if isinstance(attribute, tuple):
        return f"({', '.join(map(str, attribute))})"
    if isinstance(attribute, float):
        return repr(attribute)
    if isinstance(attribute, DType):
        return str(attribute.value)
    return str(attribute).lower() if isinstance(attribute, bool) else str(attribute)


class _Printer:
    """The text of a kernel."""

    def value(self, value: LoopValue) -> str:
        return f"%{value.name}"

    def typed(self, value: LoopValue) -> str:
        return f"%{value.name}: {value.type}"

    def values(self, values: tuple[LoopValue, ...]) -> str:
        return ", ".join(map(self.value, values))

    def kernel(self, kernel: Kernel, name: str) -> list[str]:
        listed = ", ".join(
            [f"{size.name}: size" for size in kernel.dims]
            + [
                f"{buffer.name}: {buffer.access} {buffer.dtype.value}[{buffer.size}]"
                for buffer in kernel.buffers + kernel.scratch
            ]
        )
        begin, end = kernel.begin.name, kernel.end.name
        head = f"kernel {name}({listed}) over {begin} to {end} of {kernel.extent} {{"
        return [head, *self.block(kernel.body), "}"]

    def block(self, block: Block) -> list[str]:
        return ["  " + line for statement in block for line in self.statement(statement)]

    def statement(self, statement: Statement) -> list[str]:
        match statement:
            case Let():
                parts = [statement.opcode]
                if statement.operands:
                    parts.append(self.values(statement.operands))
                text = " ".join(parts)
                if statement.attribute is not None:
                    text += (", " if statement.operands else " ") + _attribute_text(
                        statement.attribute
                    )
                return [f"{self.typed(statement.result)} = {text}"]
            case For() | If() | While():
                return self.nest(statement)
            case Barrier():
                return ["barrier"]
            case Prefetch():
                return [f"prefetch {statement.buffer}[{statement.index}]"]
            case _:
                return [self.memory(statement)]

    def memory(self, statement: Load | VectorGather | Store | VectorScatter) -> str:
        if isinstance(statement, Load | Store):
            place = str(statement.index)
        else:
            place = self.value(statement.indices)
        name = type(statement).__name__.removeprefix("Vector").lower()
        text = f"{name} {statement.buffer}[{place}]"
        if isinstance(statement, Load | VectorGather):
            text = f"{self.typed(statement.result)} = {text}"
        else:
            text += f", {self.value(statement.value)}"
        return text if statement.mask is None else f"{text} mask {self.value(statement.mask)}"

    def nest(self, statement: For | If | While) -> list[str]:
        if isinstance(statement, If):
            return [
                f"{'cold ' * statement.cold}if {self.value(statement.condition)} {{",
                *self.yielding(statement.then_body, statement.then_yields),
                "} else {",
                *self.yielding(statement.else_body, statement.else_yields),
                self.closing(statement.results),
            ]
        carried = ", ".join(
            f"{self.typed(parameter)} = {self.value(initial)}"
            for parameter, initial in statement.carried
        )
        carry = f" carry ({carried})" if carried else ""
        if isinstance(statement, While):
            head = [
                f"while{carry} {{",
                *self.block(statement.condition_body),
                f"}} test {self.value(statement.condition)} {{",
            ]
        else:
            begin, end = (
                self.value(bound) if isinstance(bound, LoopValue) else str(bound)
                for bound in (statement.begin, statement.end)
            )
            variable = self.value(statement.variable)
            head = [f"for {variable} = {begin} to {end} step {statement.step}{carry} {{"]
        body = self.yielding(statement.body, statement.yields)
        return [*head, *body, self.closing(statement.results)]

    def yielding(self, block: Block, yields: tuple[LoopValue, ...]) -> list[str]:
        lines = self.block(block)
        return [*lines, f"  yield {self.values(yields)}"] if yields else lines

    def closing(self, results: tuple[LoopValue, ...]) -> str:
        listed = ", ".join(map(self.typed, results))
        return f"}} -> ({listed})" if listed else "}"


def statement_text(statement: Statement) -> str:
    """The first line of the statement's text, for messages."""
    return _Printer().statement(statement)[0]

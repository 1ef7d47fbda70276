"""Functions of Python → LLVM IR: a subset of integers and bytes in memory.

in : functions whose arguments, variables and results are integers: assignments, `if`, `while`,
     `return`, `+ - * // %`, comparisons, `and`, `or`, `not`, calls of each other, and of `load8`,
     `load64`, `store8`, `store64` with an address
out: the text of internal functions of i64, their names behind `INSIDE`. `//` and `%` are those of
     numbers that are not negative

What an object brings along is written so: it can be read, run and tested as Python.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from graphc.errors import LoweringError

_ARITHMETIC: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "sdiv", ast.Mod: "srem",
}  # fmt: skip
_COMPARED: dict[type[ast.AST], str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge",
}  # fmt: skip
_LOADS = {"load8": "i8", "load64": "i64"}
INSIDE = "graphc."
"""What names begin with that no function of the user's can have."""
_STORES = {"store8": "i8", "store64": "i64"}


def translated(functions: Sequence[Callable[..., Any]]) -> str:
    """LLVM IR of these functions. Raises LoweringError for what the subset does not have."""
    return "\n".join(_Translation(function).text() for function in functions)


class _Translation:
    """One function. Each variable is a place on the stack."""

    def __init__(self, function: Callable[..., Any]):
        source = textwrap.dedent(inspect.getsource(function))
        (definition,) = ast.parse(source).body
        assert isinstance(definition, ast.FunctionDef)
        self.definition = definition
        self.lines: list[str] = []
        self.variables: dict[str, None] = {}
        self.count = 0
        self.loops: list[tuple[str, str]] = []

    def text(self) -> str:
        names = [argument.arg for argument in self.definition.args.args]
        for name in names:
            self.variables[name] = None
            self.lines.append(f"  store i64 %{name}, ptr %{name}.at")
        self.block(self.definition.body)
        head = ", ".join(f"i64 %{name}" for name in names)
        places = [f"  %{name}.at = alloca i64" for name in self.variables]
        return "\n".join(
            [f"define internal i64 @{INSIDE}{self.definition.name}({head}) nounwind {{", *places,
             *self.lines, "  ret i64 0", "}", ""]
        )  # fmt: skip

    def emit(self, instruction: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {instruction}")
        return f"%v{self.count}"

    def labels(self, *kinds: str) -> list[str]:
        self.count += 1
        return [f"{kind}{self.count}" for kind in kinds]

    def start(self, label: str) -> None:
        self.lines += [f"  br label %{label}", f"{label}:"]

    # -- statements --------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.variables[name] = None
                self.lines.append(f"  store i64 {self.value(value)}, ptr %{name}.at")
            case ast.If(test=test, body=body, orelse=orelse):
                then, other, end = self.labels("then", "else", "end")
                self.branch(test, then, other)
                self.lines.append(f"{then}:")
                self.block(body)
                self.lines += [f"  br label %{end}", f"{other}:"]
                self.block(orelse)
                self.start(end)
            case ast.While(test=test, body=body, orelse=[]):
                head, inside, end = self.labels("head", "body", "end")
                self.start(head)
                self.branch(test, inside, end)
                self.lines.append(f"{inside}:")
                self.block(body)
                self.lines += [f"  br label %{head}", f"{end}:"]
            case ast.Return(value=ast.expr() as value):
                (behind,) = self.labels("behind")
                self.lines += [f"  ret i64 {self.value(value)}", f"{behind}:"]
            case ast.Expr(value=ast.Constant(value=str())):  # a docstring
                pass
            case ast.Expr(value=ast.Call() as call):
                self.value(call)
            case _:
                raise self.unknown(statement)

    def branch(self, test: ast.expr, then: str, other: str) -> None:
        """Go to one of two labels; `and` and `or` ask no further than they have to."""
        match test:
            case ast.BoolOp(op=op, values=[first, *rest]):
                (further,) = self.labels("further")
                both = isinstance(op, ast.And)
                self.branch(first, *((further, other) if both else (then, further)))
                self.lines.append(f"{further}:")
                left = rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
                self.branch(left, then, other)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.branch(operand, other, then)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                sign = _COMPARED[type(op)]
                holds = self.emit(f"icmp {sign} i64 {self.value(left)}, {self.value(right)}")
                self.lines.append(f"  br i1 {holds}, label %{then}, label %{other}")
            case _:
                raise self.unknown(test)

    # -- values ------------------------------------------------------------------------------

    def value(self, expression: ast.expr) -> str:
        match expression:
            case ast.Constant(value=int(number)):
                return str(number)
            case ast.Name(id=name) if name in self.variables:
                return self.emit(f"load i64, ptr %{name}.at")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.emit(f"sub i64 0, {self.value(operand)}")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                sides = f"{self.value(left)}, {self.value(right)}"
                return self.emit(f"{_ARITHMETIC[type(op)]} i64 {sides}")
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return self.call(name, [self.value(argument) for argument in arguments])
        raise self.unknown(expression)

    def call(self, name: str, values: list[str]) -> str:
        if name not in _LOADS and name not in _STORES:
            listed = ", ".join(f"i64 {value}" for value in values)
            return self.emit(f"call i64 @{INSIDE}{name}({listed})")
        pointer = self.emit(f"inttoptr i64 {values[0]} to ptr")
        if name in _LOADS:
            kind = _LOADS[name]
            loaded = self.emit(f"load {kind}, ptr {pointer}, align 1")
            return loaded if kind == "i64" else self.emit(f"zext {kind} {loaded} to i64")
        kind, stored = _STORES[name], values[1]
        if kind != "i64":
            stored = self.emit(f"trunc i64 {stored} to {kind}")
        self.lines.append(f"  store {kind} {stored}, ptr {pointer}, align 1")
        return "0"

    def unknown(self, node: ast.AST) -> LoweringError:
        return LoweringError(f"{self.definition.name}: {ast.unparse(node)} cannot be translated")

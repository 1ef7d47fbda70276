"""Cold path outlining: branches that hardly ever run, as functions in a module of their own.

In: what such a branch does, written by an emitter of its own. Out: functions that LLVM does not
optimise, which takes a fifth of the time, and the calls of them. Branches of a kernel with equal
texts share one function.
"""

from __future__ import annotations

from graphc.codegen.llvm.function_text import FunctionText, llvm_type, quoted
from graphc.codegen.loop_ir.nodes import (
    Barrier,
    Block,
    Buffer,
    For,
    If,
    Load,
    LoopValue,
    Prefetch,
    Statement,
    Store,
    VectorGather,
    VectorScatter,
    While,
    inner_blocks,
    operands,
    results,
    walk,
)
from graphc.records import field, record

_WRITES = (Store, VectorScatter, Barrier)


@record(frozen=False)
class OutlinedCall:
    """The arguments of a call, and the parameters they are for."""

    arguments: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)

    def parameter(self, kind: str, text: str) -> str:
        """The name inside the function of what is `text` at the call."""
        name = f"%p{len(self.parameters)}"
        self.arguments.append(f"{kind} {text}")
        self.parameters.append(f"{kind} {name}")
        return name

    def value(self, value: LoopValue, outside: FunctionText, inside: FunctionText) -> None:
        """Makes `value`, known `outside`, known `inside`; literals need no parameter."""
        text = outside.text(value)
        if value.name in outside.constants:
            inside.constants[value.name] = outside.constants[value.name]
        if value.name in outside.lanes:
            inside.lanes[value.name] = outside.lanes[value.name]
        if text.startswith("%"):
            text = self.parameter(llvm_type(value.type), text)
        inside.alias(value, text)


@record(frozen=False)
class ColdFunctions:
    """The functions of one kernel: their names, by parameters and lines."""

    kernel: str
    names: dict[tuple[str, ...], str] = field(default_factory=dict)
    declarations: dict[str, str] = field(default_factory=dict)

    def call(self, call: OutlinedCall, called: FunctionText, function: FunctionText) -> None:
        """Writes into `function` the call of one that does what `called` does."""
        self.declarations.update(called.declarations)
        key = (", ".join(call.parameters), *called.lines)
        name = self.names.setdefault(key, quoted(f"{self.kernel}.cold{len(self.names)}"))
        kinds = ", ".join(parameter.rpartition(" ")[0] for parameter in call.parameters)
        function.declarations[name] = f"declare void @{name}({kinds}) cold nounwind"
        function.emit(f"call void @{name}({', '.join(call.arguments)})")

    def lines(self) -> list[str]:
        """The functions' module, empty where there is none."""
        text = []
        for (parameters, *lines), name in self.names.items():
            text += [f"define void @{name}({parameters}) cold nounwind {{", *lines, "}", ""]
        defined = set(self.names.values())
        called = [line for name, line in self.declarations.items() if name not in defined]
        return [*text, *called, *[""] * bool(text)]


def split(body: Block, yields: tuple[LoopValue, ...]) -> tuple[Block, Block]:
    """A cold block as what may be a function, up to its last loop, branch or store, and the rest.
    The first is empty where the rest reads what it defines: a function gives nothing back."""
    acts = [i for i, each in enumerate(body) if inner_blocks(each) or isinstance(each, _WRITES)]
    end = acts[-1] + 1 if acts else 0
    defined = {value.name for statement in body[:end] for value in results(statement)}
    needed = {value.name for value in (*outside_of(body[end:])[0], *yields)}
    return ((), body) if defined & needed else (body[:end], body[end:])


def outside_of(block: Block) -> tuple[list[LoopValue], list[Buffer]]:
    """What a block reads that is defined around it, and the buffers it accesses, in order of first
    use."""
    read: dict[str, LoopValue] = {}
    inside: set[str] = set()
    buffers: dict[str, Buffer] = {}
    for statement in walk(block):
        read.update((value.name, value) for value in (*operands(statement), *_at_ends(statement)))
        inside.update(value.name for value in (*results(statement), *_parameters(statement)))
        if isinstance(statement, Load | VectorGather | Store | VectorScatter | Prefetch):
            buffers[statement.buffer.name] = statement.buffer
    return [value for name, value in read.items() if name not in inside], list(buffers.values())


def _at_ends(statement: Statement) -> tuple[LoopValue, ...]:
    """What the ends of the blocks inside `statement` read."""
    match statement:
        case For():
            return statement.yields
        case While():
            return (statement.condition, *statement.yields)
        case If():
            return (*statement.then_yields, *statement.else_yields)
        case _:
            return ()


def _parameters(statement: Statement) -> tuple[LoopValue, ...]:
    """What `statement` defines inside its blocks."""
    match statement:
        case For():
            return (statement.variable, *(parameter for parameter, _ in statement.carried))
        case While():
            return tuple(parameter for parameter, _ in statement.carried)
        case _:
            return ()

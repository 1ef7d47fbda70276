"""Kernel → textual LLVM IR, one to one: what LLVM does is choose instructions, nothing else.

In: a verified Kernel. Out: the text of a module with one function

    void @symbol(ptr buffers, ptr dims, i64 begin, i64 end, ptr scratch)

`buffers` is the table of pointers in the order of kernel.buffers, `dims` that of its sizes;
`scratch` is one 64-byte aligned block laid out by `scratch_layout`. Vectors are explicit, carried
values are phi nodes, memory is aligned to its element and reached by getelementptr only. Buffers
may be the same memory, so none is declared noalias; scratch is known apart from them, and from
other scratch buffers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from graphc.codegen.llvm.cold_paths import ColdFunctions, OutlinedCall, outside_of, split
from graphc.codegen.llvm.constants import folded
from graphc.codegen.llvm.function_text import FunctionText, llvm_type, quoted
from graphc.codegen.llvm.induction_pointers import InductionPointers
from graphc.codegen.llvm.memory import MemoryText
from graphc.codegen.llvm.ops import emit_let
from graphc.codegen.llvm.size_text import extent_text
from graphc.codegen.loop_ir.nodes import (
    Barrier,
    Block,
    Buffer,
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
    results,
    walk,
)
from graphc.codegen.loop_ir.numbers import known_range
from graphc.codegen.target import Target
from graphc.ir.dims import Extent, ceil_div, symbols_in

_LOOPS = For, While
SCRATCH_ALIGNMENT = 64
SIGNATURE = "ptr {0}%buffers, ptr {0}%dims, i64 %begin, i64 %end, ptr {1}%scratch"


def scratch_layout(kernel: Kernel) -> tuple[tuple[Extent, ...], Extent]:
    """Byte offsets of the kernel's scratch buffers in its scratch block, and the block's size.
    Buffers that grow with sizes known only at run time lie behind all others."""
    offsets: dict[str, Extent] = {}
    total: Extent = 0
    for buffer in sorted(kernel.scratch, key=lambda each: bool(symbols_in(each.size))):
        offsets[buffer.name] = total
        lines = ceil_div(buffer.size * buffer.dtype.itemsize, SCRATCH_ALIGNMENT)
        total += lines * SCRATCH_ALIGNMENT
    return tuple(offsets[buffer.name] for buffer in kernel.scratch), total


def emit_modules(kernel: Kernel, name: str, target: Target) -> list[str]:
    """A module with the kernel as its one function, named `name`; and where something rarely runs,
    a second one with the functions that do it (cold_paths.py)."""
    function = FunctionText(target)
    aliasing, metadata = alias_scopes(kernel)
    emitter = _Emitter(function, ColdFunctions(name), aliasing)
    emitter.kernel(kernel)
    head = [f'target triple = "{target.triple}"', ""]
    parameters = SIGNATURE.format("noalias readonly ", f"noalias align {SCRATCH_ALIGNMENT} ")
    stack = _stack(kernel, target.permuted_lanes)
    lines = [
        *head,
        f"define void @{quoted(name)}({parameters}) nounwind{stack} {{",
        *function.lines,
        "}",
        "",
        *function.declarations.values(),
        *metadata,
        "",
    ]
    cold = emitter.cold.lines()
    return ["\n".join(lines), *(["\n".join([*head, *cold])] if cold else [])]


def _stack(kernel: Kernel, lanes: int) -> str:
    """The attribute that aligns the stack to registers of `lanes` numbers of i32, where values fill
    several of them: LLVM stores those it has no room for at any address, and one that lies across
    two pages slowed whole kernels down by half, in some processes."""
    wide = any(
        value.type.lanes * value.type.dtype.itemsize > 4 * lanes
        for statement in walk(kernel.body)
        for value in results(statement)
    )
    return f" alignstack({4 * lanes})" if lanes and wide else ""


def alias_scopes(kernel: Kernel) -> tuple[dict[str, str], list[str]]:
    """What stands behind each access of a buffer, by its name, and the module's lines that it
    names: one scope for each scratch buffer and one for all other buffers."""
    groups: list[list[Buffer]] = [[buffer] for buffer in kernel.scratch]
    if not groups:
        return {}, []
    groups.append(list(kernel.buffers))
    count = len(groups)
    metadata = ["!0 = distinct !{!0}"]
    metadata += [f"!{number} = distinct !{{!{number}, !0}}" for number in range(1, count + 1)]
    aliasing = {}
    for position, group in enumerate(groups, 1):
        others = ", ".join(f"!{number}" for number in range(1, count + 1) if number != position)
        own_list, other_list = count + 2 * position - 1, count + 2 * position
        metadata += [f"!{own_list} = !{{!{position}}}", f"!{other_list} = !{{{others}}}"]
        for buffer in group:
            aliasing[buffer.name] = f", !alias.scope !{own_list}, !noalias !{other_list}"
    return aliasing, metadata


class _Emitter(MemoryText):
    def __init__(
        self, function: FunctionText, cold: ColdFunctions,
        aliasing: Mapping[str, str] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        super().__init__(function, aliasing)
        self.cold = cold
        function.lines.append("entry:")
        self.label = "entry"
        self.labels = 0

    def kernel(self, kernel: Kernel) -> None:
        function = self.function
        for position, buffer in enumerate(kernel.buffers):
            address = function.temporary(f"getelementptr ptr, ptr %buffers, i64 {position}")
            self.lies_at(buffer, function.temporary(f"load ptr, ptr {address}, align 8"))
        for position, size in enumerate(kernel.dims):
            address = function.temporary(f"getelementptr i64, ptr %dims, i64 {position}")
            function.define(size, f"load i64, ptr {address}, align 8")
        sizes = {size.name: function.text(size) for size in kernel.dims}
        for buffer, offset in zip(kernel.scratch, scratch_layout(kernel)[0], strict=True):
            at = extent_text(offset, sizes, function.temporary)
            self.lies_at(buffer, function.temporary(f"getelementptr i8, ptr %scratch, i64 {at}"))
        function.alias(kernel.begin, "%begin")
        function.alias(kernel.end, "%end")
        self.seen(kernel.begin, kernel.end, *kernel.dims)
        self.block(kernel.body)
        function.emit("ret void")

    # -- blocks -----------------------------------------------------------------------------------

    def new_labels(self, *kinds: str) -> list[str]:
        self.labels += 1
        return [f"{kind}{self.labels}" for kind in kinds]

    def start(self, label: str) -> None:
        self.function.lines.append(f"{label}:")
        self.label = label

    def block(self, block: Block) -> None:
        with self.addresses_of_block():
            for statement in block:
                self.statement(statement)

    def statement(self, statement: Statement) -> None:
        match statement:
            case Let():
                if not folded(self.function, statement):
                    emit_let(self.function, statement)
                self.seen(statement.result)
            case Load():
                pointer = self.address(statement.buffer, statement.index)
                self.load(statement, pointer)
            case Store():
                pointer = self.address(statement.buffer, statement.index)
                self.store(statement, pointer)
            case Prefetch():
                self.prefetch(self.address(statement.buffer, statement.index))
            case VectorGather():
                self.gather(statement)
            case VectorScatter():
                self.scatter(statement)
            case For():
                self.for_(statement)
            case If():
                self.if_(statement)
            case While():
                self.while_(statement)
            case Barrier():
                self.function.emit("fence seq_cst")

    def phis(
        self, carried: tuple[tuple[LoopValue, LoopValue], ...], before: str
    ) -> list[tuple[str, str]]:
        """Names and first incoming edges; the lines follow when the last block is known."""
        phis = []
        for parameter, initial in carried:
            start = f"[ {self.function.text(initial)}, %{before} ]"
            phis.append((self.function.own_name(parameter), start))
            self.seen(parameter)
        return phis

    def for_(self, statement: For) -> None:
        function = self.function
        before = self.label
        head, body, done = self.new_labels("for", "body", "done")
        bounds = [
            function.text(bound) if isinstance(bound, LoopValue) else str(bound)
            for bound in (statement.begin, statement.end)
        ]
        entry = len(function.lines)
        runs = bool(known_range(statement.begin, statement.end))
        self.ahead.append([])
        if runs:
            head = body
            function.emit(f"br label %{head}")
        else:
            function.emit(f"br label %{head}")
        self.start(head)
        place = len(function.lines)
        variable = function.own_name(statement.variable)
        self.seen(statement.variable)
        names = [(variable, f"[ {bounds[0]}, %{before} ]")]
        names += self.phis(statement.carried, before)
        if not runs:
            running = function.temporary(f"icmp slt i64 {variable}, {bounds[1]}")
            function.emit(f"br i1 {running}, label %{body}, label %{done}")
            self.start(body)
        inside = len(function.lines)
        pointers = InductionPointers(function, bounds[0], statement.step, self.ahead[-1])
        if not any(isinstance(inner, _LOOPS) for inner in walk(statement.body)):
            self.innermost(statement.variable, pointers)
        self.block(statement.body)
        following = function.temporary(f"add nsw i64 {variable}, {statement.step}")
        following = function.opaque("i64", following)  # see induction_pointers.py
        yields = [following, *map(function.text, statement.yields)]
        phis, addresses = pointers.close(before, self.label)
        if runs:
            again = function.temporary(f"icmp slt i64 {following}, {bounds[1]}")
            function.emit(f"br i1 {again}, label %{head}, label %{done}")
        else:
            function.emit(f"br label %{head}")
        parameters = [statement.variable, *(parameter for parameter, _ in statement.carried)]
        function.lines[inside:inside] = addresses
        function.lines[place:place] = phis
        self.insert_phis(place, parameters, names, yields)
        function.lines[entry:entry] = self.ahead.pop()
        self.start(done)
        if runs:
            # The test stands behind the body: what the loop leaves is what it yielded last.
            for result, value in zip(statement.results, statement.yields, strict=True):
                function.alias(result, function.text(value))
                self.seen(result)
            return
        self.finish_loop(statement)

    def insert_phis(
        self,
        place: int,
        parameters: list[LoopValue],
        names: list[tuple[str, str]],
        yields: list[str],
    ) -> None:
        lines = self.function.lines
        lines[place:place] = [
            f"  {name} = phi {llvm_type(parameter.type)} {start}, [ {end}, %{self.label} ]"
            for parameter, (name, start), end in zip(parameters, names, yields, strict=True)
        ]

    def finish_loop(self, statement: For | While) -> None:
        for result, (parameter, _) in zip(statement.results, statement.carried, strict=True):
            self.function.alias(result, self.function.text(parameter))
            self.seen(result)

    def while_(self, statement: While) -> None:
        function = self.function
        before = self.label
        head, body, done = self.new_labels("while", "body", "done")
        entry = len(function.lines)
        self.ahead.append([])
        function.emit(f"br label %{head}")
        self.start(head)
        place = len(function.lines)
        names = self.phis(statement.carried, before)
        with self.addresses_of_block():
            for inner in statement.condition_body:
                self.statement(inner)
            condition = function.text(statement.condition)
            function.emit(f"br i1 {condition}, label %{body}, label %{done}")
            self.start(body)
            self.block(statement.body)
        function.emit(f"br label %{head}")
        parameters = [parameter for parameter, _ in statement.carried]
        yields = [function.text(value) for value in statement.yields]
        self.insert_phis(place, parameters, names, yields)
        function.lines[entry:entry] = self.ahead.pop()
        self.start(done)
        self.finish_loop(statement)

    def if_(self, statement: If) -> None:
        function = self.function
        then, other, join = self.new_labels("then", "else", "join")
        condition = function.text(statement.condition)
        function.emit(f"br i1 {condition}, label %{then}, label %{other}")
        ends = []
        arms = (then, statement.then_body), (other, statement.else_body)
        for label, body in arms:
            self.start(label)
            if statement.cold and label == then:
                self.outlined(body, statement.then_yields)
            else:
                self.block(body)
            function.emit(f"br label %{join}")
            ends.append(self.label)
        self.start(join)
        pairs = zip(statement.then_yields, statement.else_yields, strict=True)
        for result, (first, second) in zip(statement.results, pairs, strict=True):
            function.define(
                result,
                f"phi {llvm_type(result.type)} [ {function.text(first)}, %{ends[0]} ], "
                f"[ {function.text(second)}, %{ends[1]} ]",
            )
            self.seen(result)

    def outlined(self, body: Block, yields: tuple[LoopValue, ...]) -> None:
        """Writes `body`, as far as it can be a function of its own, as a call."""
        head, tail = split(body, yields)
        if head:
            call, function = OutlinedCall(), self.function.cold_one()
            inner = _Emitter(function, self.cold)
            known, buffers = outside_of(head)
            for buffer in buffers:
                inner.lies_at(buffer, call.parameter("ptr", self.pointers[buffer.name]))
            for value in known:
                call.value(value, self.function, function)
            inner.seen(*sorted(known, key=lambda value: self.order[value.name]))
            inner.block(head)
            function.emit("ret void")
            self.cold.call(call, function, self.function)
        self.block(tail)

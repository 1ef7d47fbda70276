"""The functions of an object that others call, as LLVM IR, and the data they read.

NAME, NAME_init, NAME_save, NAME_work_bytes, NAME_error, and NAME_prepare where weights are packed:
their meaning stands in the header (header.py). A call looks at the state's head, at some words of
packed weights, at bounds of sizes and at guards, then fills a table of pointers and the table of
sizes, both on the stack, and runs a driver over the work block: arena, verdict, scratch, as in the
process (codegen/program/native_program.py). What is not for others has a name that begins
with `graphc.`, which no C function has.
"""

from __future__ import annotations

from typing import Any

from graphc.build.brought_along import FIXED_TEXTS, FUNCTIONS
from graphc.build.built_programs import BuiltProgram, BuiltPrograms
from graphc.build.built_source import (
    InputPlace,
    ObjectSource,
    OfArgument,
    OfNumber,
    OfResult,
    OfState,
)
from graphc.build.error_texts import BOUND, FIELD, SEEN, VALUE, VALUE_BITS, ErrorTexts
from graphc.build.function_lines import FunctionLines
from graphc.build.number_text import INTRINSICS, POWER, NumberText, takes_power
from graphc.build.packed_weights import WORD
from graphc.build.state_layout import (
    FILE_TYPES,
    HEAD_BYTES,
    VERSION,
    StateLayout,
    bytes_of,
    file_head,
)
from graphc.build.translation import translated
from graphc.codegen.program.barrier import PADDING
from graphc.codegen.program.native_program import verdict_start
from graphc.codegen.program.size_expressions import llvm_value, rounded_up
from graphc.codegen.program.size_table import ARENA, SCRATCH
from graphc.ir.size_floats import text_of
from graphc.schedule.plan import Check, all_checks

DRIVER, AHEAD = "graphc.driver", "graphc.ahead"
"""What drivers are called, with a number: those of calls, and those that pack weights."""
SEEN_BYTES = 16
"""At the beginning of the work block: two numbers that a check of contents saw."""
TEAM = "i64 %thread, i64 %threads, ptr %counter"
SMALLER = "declare i64 @llvm.smin.i64(i64, i64)"
LARGEST_VALUE = 1 << 46
"""The greatest number that a status holds; beyond it this one stands."""


class EntryPoints:
    """Writes the main module of an object."""

    def __init__(
        self, name: str, source: ObjectSource, built: BuiltPrograms, layout: StateLayout,
        texts: ErrorTexts, embeds: bool,
    ):  # fmt: skip
        self.name = name
        self.source = source
        self.built = built
        self.layout = layout
        self.texts = texts
        self.embeds = embeds
        self.count = len(source.arguments)
        self.results = len(built.results)
        self.calls_power = False

    def module(self, triple: str) -> str:
        """The module's text."""
        functions = [self._init(), self._save(), self._work_bytes(), self._call()]
        if self.built.ahead:
            functions += [self._prepare(), self._written()]
        if self.built.threads > 1:
            functions.append(self._part())
        for number, program in enumerate(self.built.programs):
            functions += [self._numbers(number, program), self._bytes(number, program)]
            functions.append(self._program(number, program))
        functions.append(self._error())  # when all texts are known
        declared = [
            f"declare i64 @{kind}{number}(ptr, ptr, i64, i64, ptr)"
            for kind, programs in ((DRIVER, self.built.programs), (AHEAD, self.built.ahead))
            for number in range(len(programs))
        ]
        head = [f'target triple = "{triple}"', INTRINSICS, SMALLER, POWER * self.calls_power]
        return "\n".join([*head, *declared, "", *self._data(), translated(FUNCTIONS), *functions])

    # -- data ----------------------------------------------------------------------------------

    def _data(self) -> list[str]:
        """Texts, records of fields, messages, initial values, constants of plans."""
        texts, records, shapes = bytearray(FIXED_TEXTS), list[int](), list[int]()
        for member in self.layout.members:
            key, kind = member.field.key.encode(), FILE_TYPES[member.type.dtype].encode()
            records += [len(texts), len(key), len(texts) + len(key), len(kind), len(shapes)]
            records += [member.type.rank, member.offset, member.nbytes]
            texts += key + kind
            shapes += member.type.shape
        messages, spans = bytearray(), list[int]()
        for text in self.texts.all():
            raw = text.encode()
            spans += [len(messages), len(raw)]
            messages += raw
        data = [
            _bytes_constant("texts", bytes(texts)), _numbers_constant("records", records),
            _numbers_constant("shapes", shapes), _bytes_constant("messages", bytes(messages)),
            _numbers_constant("spans", spans),
            _bytes_constant("head", self.layout.image(False)),
            _bytes_constant("file", file_head(self.layout)),
        ]  # fmt: skip
        if self.embeds:
            data.append(_bytes_constant("initial", self.layout.image()))
        for driver, programs in ((DRIVER, self.built.programs), (AHEAD, self.built.ahead)):
            for number, program in enumerate(programs):
                for slot, constant in enumerate(program.native.plan.constants):
                    name = _constant(driver, number, slot)
                    data.append(_bytes_constant(name, bytes_of(constant.array)))
        return data

    # -- init, work_bytes, error -----------------------------------------------------------------

    def _init(self) -> str:
        f = FunctionLines()
        other = self.texts.code(f"the header is not that of this object of {self.name}")
        f.leave_if(f.emit(f"icmp ne i64 %layout, {self.layout.digest}"), str(other))
        state = f.emit("ptrtoint ptr %state to i64")
        head = f.emit("ptrtoint ptr @graphc.head to i64")
        file_label, inside = f.label("file"), f.label("inside")
        none = f.emit("icmp eq ptr %file, null")
        f.do(f"br i1 {none}, label %{inside}, label %{file_label}")
        f.start(inside)
        if self.embeds:
            initial = f.emit("ptrtoint ptr @graphc.initial to i64")
            count = self.layout.saved_bytes
            f.do(f"call i64 @graphc.copy(i64 {state}, i64 {initial}, i64 {count})")
            self._finish(f, state)
        else:
            missing = "the object has no initial values: give the bytes of a safetensors file"
            f.do(f"ret i64 {self.texts.code(missing)}")
        f.start(file_label)
        numbers = [
            f.emit(f"ptrtoint ptr @graphc.{data} to i64") for data in ("texts", "records", "shapes")
        ]
        texts, records, shapes = numbers
        file = f.emit("ptrtoint ptr %file to i64")
        status = f.emit(
            f"call i64 @graphc.read_state(i64 {state}, i64 {file}, i64 %size, i64 {records}, "
            f"i64 {self._saved}, i64 {texts}, i64 {shapes})"
        )
        malformed = self.texts.code("the bytes are not those of a safetensors file")
        f.leave_if(f.emit(f"icmp eq i64 {status}, -1"), str(malformed))
        self._leave_with_field(f, status)
        f.do(f"call i64 @graphc.copy(i64 {state}, i64 {head}, i64 {HEAD_BYTES})")
        self._finish(f, state)
        return f.text(
            f"define i64 @{self.name}_init(ptr %state, ptr %file, i64 %size, i64 %layout)"
        )

    @property
    def _saved(self) -> int:
        """How many fields a file has: the first ones."""
        return sum(member.field.is_saved for member in self.layout.members)

    def _save(self) -> str:
        """The function that writes the state as a file."""
        f = FunctionLines()
        self._look_at_head(f, "-1")
        names = ("%state", "%file", "@graphc.file", "@graphc.records")
        state, file, head, records = (f.emit(f"ptrtoint ptr {x} to i64") for x in names)
        written = f.emit(
            f"call i64 @graphc.save_state(i64 {state}, i64 {file}, i64 %size, i64 {head}, "
            f"i64 {len(file_head(self.layout))}, i64 {records}, i64 {self._saved})"
        )
        f.do(f"ret i64 {written}")
        return f.text(f"define i64 @{self.name}_save(ptr %state, ptr %file, i64 %size)")

    def _finish(self, f: FunctionLines, state: str) -> None:
        """What init leaves beside what a file has; it returns."""
        for member in self.layout.members:
            if not member.field.is_saved:
                place = f.emit(f"add i64 {state}, {member.offset}")
                f.do(f"call i64 @graphc.clear(i64 {place}, i64 {member.nbytes})")
        prepared = f"call i64 @{self.name}_prepare(ptr %state)"
        f.do(f"ret i64 {f.emit(prepared) if self.built.ahead else 0}")

    def _prepare(self) -> str:
        """The function that packs weights, and notes words of them."""
        f = FunctionLines()
        self._look_at_head(f)
        for number, program in enumerate(self.built.ahead):
            base = self._block(f, f.at("%state", self.layout.work))
            self._driven(f, AHEAD, number, program, base, "i64 0, i64 1, ptr null")
        for place, (_, sample) in enumerate(self.layout.samples):
            word = f.emit(f"load i64, ptr {f.at('%state', sample)}, align 8")
            seen = self.layout.seen + WORD * place
            f.do(f"store i64 {word}, ptr {f.at('%state', seen)}, align 8")
        f.do("ret i64 0")
        return f.text(f"define i64 @{self.name}_prepare(ptr %state)")

    def _written(self) -> str:
        """The function that tells a packed weight of which a word is another than it was."""
        f = FunctionLines()
        text = f"{FIELD} was written: {self.name}_prepare packs it anew"
        changes: dict[int, str] = {}
        for place, (number, sample) in enumerate(self.layout.samples):
            seen = self.layout.seen + WORD * place
            word, before = (
                f.emit(f"load i64, ptr {f.at('%state', at)}, align 8") for at in (sample, seen)
            )
            change = f.emit(f"xor i64 {word}, {before}")
            known = changes.get(number)
            changes[number] = change if known is None else f.emit(f"or i64 {known}, {change}")
        every = "0"
        for change in changes.values():
            every = f.emit(f"or i64 {every}, {change}")
        f.leave_if(f.emit(f"icmp eq i64 {every}, 0"), "0")
        for number, change in changes.items():
            status = self._status(f, text, str(number))
            f.leave_if(f.emit(f"icmp ne i64 {change}, 0"), status)
        f.do("ret i64 0")
        return f.text("define internal i64 @graphc.written(ptr %state)")

    def _leave_with_field(self, f: FunctionLines, status: str) -> None:
        """Return with the field of which a file has none, or one of another type."""
        for kind, text in (
            (-2, f"the file has no tensor {FIELD}"),
            (-3, f"tensor {FIELD} of the file has another dtype, shape or length"),
        ):
            over = f.emit(f"sub i64 {kind}, {status}")  # 4 times its number, where it is this
            rest = f.emit(f"srem i64 {over}, 4")
            is_kind = f.emit(f"icmp eq i64 {rest}, 0")
            below = f.emit(f"icmp slt i64 {status}, 0")
            both = f.emit(f"and i1 {is_kind}, {below}")
            number = f.emit(f"sdiv i64 {over}, 4")
            f.leave_if(both, self._status(f, text, number))

    def _status(self, f: FunctionLines, text: str, value: str) -> str:
        """The status of a text with a number in it."""
        most = f.emit(f"icmp sgt i64 {value}, {LARGEST_VALUE}")
        value = f.emit(f"select i1 {most}, i64 {LARGEST_VALUE}, i64 {value}")
        least = f.emit(f"icmp slt i64 {value}, {-LARGEST_VALUE}")
        value = f.emit(f"select i1 {least}, i64 {-LARGEST_VALUE}, i64 {value}")
        shifted = f.emit(f"shl i64 {value}, {VALUE_BITS}")
        return f.emit(f"or i64 {shifted}, {self.texts.code(text)}")

    def _error(self) -> str:
        f = FunctionLines()
        unknown = self.texts.code("no status of this object")
        count = len(self.texts.all())
        code = f.emit(f"and i64 %status, {(1 << VALUE_BITS) - 1}")
        value = f.emit(f"ashr i64 %status, {VALUE_BITS}")
        beyond = f.emit(f"icmp ugt i64 {code}, {count}")
        zero = f.emit(f"icmp eq i64 {code}, 0")
        wrong = f.emit(f"or i1 {beyond}, {zero}")
        code = f.emit(f"select i1 {wrong}, i64 {unknown}, i64 {code}")
        fields = f.emit(f"icmp uge i64 {value}, {max(len(self.layout.members), 1)}")
        row = f.emit(f"mul i64 {f.emit(f'sub i64 {code}, 1')}, 2")
        begin = f.emit(f"load i64, ptr {f.at('@graphc.spans', row, 'i64')}")
        length = f.emit(
            f"load i64, ptr {f.at('@graphc.spans', f.emit(f'add i64 {row}, 1'), 'i64')}"
        )
        numbered = self._numbered_by_field()
        is_field = f.emit("xor i1 true, true")
        for each in numbered:
            is_field = f.emit(f"or i1 {is_field}, {f.emit(f'icmp eq i64 {code}, {each}')}")
        unsafe = f.emit(f"and i1 {is_field}, {fields}")
        value = f.emit(f"select i1 {unsafe}, i64 0, i64 {value}")
        message = f.emit(f"ptrtoint ptr {f.at('@graphc.messages', begin)} to i64")
        names = ("%work", "%buffer", "@graphc.texts", "@graphc.records")
        work, buffer, texts, records = (f.emit(f"ptrtoint ptr {x} to i64") for x in names)
        ok, explain = f.label("ok"), f.label("explain")
        fine = f.emit("icmp eq i64 %status, 0")
        f.do(f"br i1 {fine}, label %{ok}, label %{explain}")
        f.start(ok)
        none = f.emit(
            f"call i64 @graphc.put_message(i64 {buffer}, i64 %size, "
            "i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)"
        )
        f.do(f"ret i64 {none}")
        f.start(explain)
        written = f.emit(
            f"call i64 @graphc.put_message(i64 {buffer}, i64 %size, i64 {message}, i64 {length}, "
            f"i64 {value}, i64 {work}, i64 {records}, i64 {texts})"
        )
        f.do(f"ret i64 {written}")
        return f.text(
            f"define i64 @{self.name}_error(i64 %status, ptr %work, ptr %buffer, i64 %size)"
        )

    def _numbered_by_field(self) -> list[int]:
        return [self.texts.code(text) for text in self.texts.all() if FIELD in text]

    def _work_bytes(self) -> str:
        f = FunctionLines()
        sizes = self._given_sizes(f, bounds="-1")
        for number in range(len(self.built.programs)):
            bytes_ = f.emit(f"call i64 @graphc.bytes{number}({sizes})")
            f.leave_if(f.emit(f"icmp sge i64 {bytes_}, 0"), bytes_)
        f.do("ret i64 -1")
        return f.text(f"define i64 @{self.name}_work_bytes({self._size_parameters()})")

    # -- sizes and numbers -----------------------------------------------------------------------

    def _size_parameters(self) -> str:
        integers = [f"i64 {_local(symbol.name)}" for symbol in self.source.sizes]
        return ", ".join([*integers, *(f"double {_local(name)}" for name in self.source.floats)])

    def _given_sizes(self, f: FunctionLines, bounds: str | None) -> str:
        """The sizes as arguments for functions of programs, behind a look at their bounds: with
        `bounds` that is returned where they do not hold, else what tells so."""
        for symbol in self.source.sizes:
            most = " upward" if symbol.most is None else f" to {symbol.most}"
            text = f"size {symbol.name} is {VALUE}, not in {symbol.least}{most}"
            value = _local(symbol.name)
            low = f.emit(f"icmp slt i64 {value}, {symbol.least}")
            high = (
                "false" if symbol.most is None else f.emit(f"icmp sgt i64 {value}, {symbol.most}")
            )
            outside = f.emit(f"or i1 {low}, {high}")
            status = bounds if bounds is not None else self._status(f, text, value)
            f.leave_if(outside, status)
        return self._size_parameters()

    def _values(self) -> dict[str, str]:
        """What stands for each name."""
        names = (*(symbol.name for symbol in self.source.sizes), *self.source.floats)
        return {name: _local(name) for name in names}

    def _numbers(self, number: int, program: BuiltProgram) -> str:
        """The function that fills the table of sizes."""
        f, values, sizes = FunctionLines(), self._values(), program.native.sizes
        for name, expression in sizes.lines:
            values[name] = llvm_value(expression, values, f.emit)
        for place, expression in enumerate((*sizes.entries, *program.native.decisions)):
            value = llvm_value(expression, values, f.emit)
            f.do(f"store i64 {value}, ptr {f.at('%table', place, 'i64')}")
        f.do("ret void")
        parameters = ", ".join(filter(None, [self._size_parameters(), "ptr %table"]))
        return f.text(f"define internal void @graphc.sizes{number}({parameters})")

    def _table(self, f: FunctionLines, number: int, program: BuiltProgram) -> tuple[str, str, str]:
        """The table of sizes on the stack, the byte at which the verdict lies, and the bytes of
        scratch."""
        native = program.native
        entries = max(len(native.sizes.entries) + len(native.decisions), 1)
        table = f.emit(f"alloca [{entries} x i64], align 16")
        if not native.sizes.is_used:
            return table, str(verdict_start(native.plan.arena_bytes)), str(native.scratch_bytes)
        arguments = ", ".join(filter(None, [self._size_parameters(), f"ptr {table}"]))
        f.do(f"call void @graphc.sizes{number}({arguments})")
        arena, scratch = (
            f.emit(f"load i64, ptr {f.at(table, place, 'i64')}") for place in (ARENA, SCRATCH)
        )
        return table, rounded_up(arena, PADDING, f.emit), scratch

    def _serves(self, f: FunctionLines, program: BuiltProgram, otherwise: str) -> None:
        """Return where a guard of the program does not hold."""
        numbers = NumberText(f, self._values())
        for guard in program.guards:
            self.calls_power |= takes_power(guard.left) or takes_power(guard.right)
            f.leave_if(f.emit(f"xor i1 {numbers.holds(guard)}, true"), otherwise)

    def _bytes(self, number: int, program: BuiltProgram) -> str:
        """The function that gives the bytes of the work block; -1 where another serves."""
        f = FunctionLines()
        self._serves(f, program, "-1")
        _, verdict, scratch = self._table(f, number, program)
        every = f.emit(f"mul i64 {scratch}, {program.native.threads}")
        total = f.emit(f"add i64 {verdict}, {every}")
        f.do(f"ret i64 {f.emit(f'add i64 {total}, {2 * PADDING + SEEN_BYTES}')}")
        return f.text(f"define internal i64 @graphc.bytes{number}({self._size_parameters()})")

    # -- a call ----------------------------------------------------------------------------------

    def _parameters(self) -> str:
        arguments = [f"ptr %argument{i}" for i in range(self.count)]
        results = [f"ptr %result{i}" for i in range(self.results)]
        sizes = [self._size_parameters()] if self._size_parameters() else []
        return ", ".join(["ptr %state", *sizes, *arguments, *results, "ptr %work"])

    def _call(self) -> str:
        f = FunctionLines()
        self._run(f, "i64 0, i64 1, ptr null")
        return f.text(f"define i64 @{self.name}({self._parameters()})")

    def _part(self) -> str:
        f = FunctionLines()
        several = f.emit("icmp ne i64 %threads, 1")
        other = f.emit(f"icmp ne i64 %threads, {self.built.threads}")
        text = f"{self.name}_part runs on {self.built.threads} threads or on one, not on {VALUE}"
        status = self._status(f, text, "%threads")
        f.leave_if(f.emit(f"and i1 {several}, {other}"), status)
        self._run(f, TEAM)
        return f.text(f"define i64 @{self.name}_part({self._parameters()}, {TEAM})")

    def _run(self, f: FunctionLines, team: str) -> None:
        """What a call does, on one thread of a team."""
        self._look_at_head(f)
        if self.built.ahead:
            written = f.emit("call i64 @graphc.written(ptr %state)")
            f.leave_if(f.emit(f"icmp ne i64 {written}, 0"), written)
        self._given_sizes(f, None)
        for number in range(len(self.built.programs)):
            status = f.emit(f"call i64 @graphc.call{number}({self._parameters()}, {team})")
            f.leave_if(f.emit(f"icmp ne i64 {status}, -1"), status)
        names = ", ".join(self._values())
        none = f"there is no code for these values of {names}" if names else "there is no code"
        f.do(f"ret i64 {self.texts.code(none)}")

    def _look_at_head(self, f: FunctionLines, otherwise: str | None = None) -> None:
        """Return where the state is not of this object: what tells so, or `otherwise`."""
        digest = f.emit(f"load i64, ptr {f.at('%state', 8)}, align 8")
        version = f.emit("load i64, ptr %state, align 8")
        for value, expected in ((version, VERSION), (digest, self.layout.digest)):
            foreign = self.texts.code(f"the state was not made by {self.name}_init of this object")
            status = str(foreign) if otherwise is None else otherwise
            f.leave_if(f.emit(f"icmp ne i64 {value}, {expected}"), status)

    def _program(self, number: int, program: BuiltProgram) -> str:
        """The function that runs a program; -1 where another serves."""
        f, plan, most = FunctionLines(), program.native.plan, program.native.threads
        self._serves(f, program, "-1")
        team = f.emit("call i64 @llvm.smin.i64(i64 %threads, i64 " + f"{most})")
        f.leave_if(f.emit(f"icmp sge i64 %thread, {team}"), "0")
        base = self._block(f, f.at("%work", SEEN_BYTES))
        of_team = f"i64 %thread, i64 {team}, ptr %counter"
        failed, verdict = self._driven(f, DRIVER, number, program, base, of_team)
        f.leave_if(f.emit(f"icmp eq i64 {failed}, 0"), "0")
        self._told(f, failed, f.at(base, verdict), all_checks(plan))
        return f.text(f"define internal i64 @graphc.call{number}({self._parameters()}, {TEAM})")

    def _block(self, f: FunctionLines, start: str) -> str:
        """A pointer to where arena, verdict and scratch lie in memory that starts anywhere."""
        address = f.emit(f"ptrtoint ptr {start} to i64")
        return f.emit(f"inttoptr i64 {rounded_up(address, PADDING, f.emit)} to ptr")

    def _driven(
        self, f: FunctionLines, kind: str, number: int, program: BuiltProgram, base: str, team: str
    ) -> tuple[str, str]:
        """Run the driver of a program: the number of the check that failed or 0, and where from
        `base` on what it saw lies."""
        plan = program.native.plan
        sizes, verdict, _ = self._table(f, number, program)
        inputs = [
            self._input(f, place, type.dtype)
            for place, type in zip(program.source.inputs, plan.argument_types, strict=True)
        ]
        aliased = dict(plan.aliases)
        pointers = list(inputs)
        for output, place in enumerate(program.source.outputs):
            pointers.append(inputs[aliased[output]] if place is None else self._output(f, place))
        pointers += [f"@graphc.{_constant(kind, number, i)}" for i in range(len(plan.constants))]
        table = f.emit(f"alloca [{len(pointers) + 1} x ptr], align 16")
        for slot, pointer in enumerate([*pointers, sizes]):
            f.do(f"store ptr {pointer}, ptr {f.at(table, slot, 'ptr')}")
        failed = f.emit(f"call i64 @{kind}{number}(ptr {table}, ptr {base}, {team})")
        return failed, verdict

    def _input(self, f: FunctionLines, place: InputPlace, dtype: Any) -> str:
        if isinstance(place, OfArgument):
            return f"%argument{place.position}"
        if isinstance(place, OfState):
            return f.at("%state", self.layout.offset(place.label))
        assert isinstance(place, OfNumber)
        numbers = NumberText(f, self._values())
        self.calls_power |= takes_power(place.expression)
        kind, value = numbers.stored(place.expression, dtype)
        text = f"Python raises an error in computing {text_of(place.expression)}"
        for wrong in numbers.wrong:
            f.leave_if(wrong, str(self.texts.code(text)))
        cell = f.emit(f"alloca {kind}, align 8")
        f.do(f"store {kind} {value}, ptr {cell}")
        return cell

    def _output(self, f: FunctionLines, place: OfResult | OfState) -> str:
        if isinstance(place, OfResult):
            return f"%result{place.position}"
        return f.at("%state", self.layout.offset(place.label))

    def _told(self, f: FunctionLines, failed: str, verdict: str, checks: list[Check]) -> None:
        """Return the status of the check that failed; what it saw is left in the work block."""
        least, greatest = (
            f.emit(f"load i64, ptr {f.at(verdict, place, 'i64')}") for place in (0, 1)
        )
        below = f.emit(f"icmp slt i64 {least}, 0")
        bad = f.emit(f"select i1 {below}, i64 {least}, i64 {greatest}")
        f.do(f"store i64 {bad}, ptr %work, align 1")
        for number, check in enumerate(checks, 1):
            text = check_message(check)
            this = f.label("this")
            next_ = f.label("next")
            is_this = f.emit(f"icmp eq i64 {failed}, {number}")
            f.do(f"br i1 {is_this}, label %{this}, label %{next_}")
            f.start(this)
            bound = 0 if check.bound is None else check.bound
            value = llvm_value(bound, self._values(), f.emit)
            f.do(f"store i64 {value}, ptr {f.at('%work', 1, 'i64')}, align 1")
            f.do(f"ret i64 {self.texts.code(text)}")
            f.start(next_)
        f.do(f"ret i64 {self.texts.code('a check failed')}")


def exported_names(name: str, threads: int = 1, packs: bool = False) -> list[str]:
    """What an object defines for others."""
    parts = ["init", "save", "work_bytes", "error"]
    parts += ["part"] * (threads > 1) + ["prepare"] * packs
    return [name, *(f"{name}_{part}" for part in parts)]


def _constant(kind: str, number: int, slot: int) -> str:
    """The name of a constant that a driver reads."""
    return f"{kind.rpartition('.')[2]}{number}.{slot}"


def check_message(check: Check) -> str:
    """The text of a check's error with marks for its numbers, and the user's line."""
    text = check.message
    if check.bound is not None:
        if "{}" not in text:
            text += f": {{}} is not in [0, {BOUND})"
        text = text.replace("{}", SEEN)
    return f"{text}, {check.location}" if check.location is not None else text


def _local(name: str) -> str:
    """The parameter for a size or number of this name."""
    return f"%n.{name}"


def _bytes_constant(name: str, content: bytes) -> str:
    content = content or b"\0"
    listed = "".join(f"\\{byte:02x}" for byte in content)
    return f'@graphc.{name} = internal constant [{len(content)} x i8] c"{listed}", align 64'


def _numbers_constant(name: str, numbers: list[int]) -> str:
    listed = ", ".join(f"i64 {number}" for number in numbers or [0])
    return f"@graphc.{name} = internal constant [{max(len(numbers), 1)} x i64] [{listed}], align 8"

"""Plan and schedule → the LLVM IR of the driver, which calls the kernels in order.

Its signature is `i64 (ptr arguments, ptr arena, i64 thread, i64 threads, ptr counter)`: a table of
pointers (the graph's arguments, then its outputs, then the plan's constants; where sizes are known
only at run time, then the table of `SizeTable`), an aligned block for arena and scratch, and which
thread of how many this is. It returns 0, or 1 + the number of the content check that failed (in
order of `all_checks(plan)`), the same on every thread. The extremes which that check saw then stand
as two i64 at `verdict_start`.

All threads run the same text. A step that is split does a fixed part of its kernel's range on each
thread; other launches run on the thread the schedule gives them, mostly 0. Where the schedule says
so, there is a barrier: each thread adds 1 to `counter` and waits for all. Each thread has scratch
of its own behind the arena. With `threads` 1 the same driver does everything on one thread, and
never waits; a schedule of one thread has none of this in its driver. Where the sizes of a call
decide, the number of a step's parts is in the table, and that of a loop says whether all threads go
through it, or thread 0 as if it were alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphc.codegen.program.barrier import PADDING
from graphc.codegen.program.check_text import check_text
from graphc.codegen.program.native_kernel import (
    NativeKernel,
    own_sizes,
    scratch_needs,
    scratch_stride,
    slice_bytes,
    with_variants,
)
from graphc.codegen.program.native_program import verdict_start
from graphc.codegen.program.size_expressions import literal
from graphc.codegen.program.size_table import SizeTable
from graphc.ir.instances import substitute
from graphc.ir.types import DType
from graphc.records import record
from graphc.schedule.plan import Branch, Check, KernelSpec, Launch, Loop, Plan, Step, all_steps
from graphc.schedule.threads import Schedule, WorkSplit

_LLVM_TYPE = {DType.i32: "i32", DType.i64: "i64", DType.bool: "i8"}


@record
class BoundPlan:
    """A plan under emission: the pointer to each of its buffers."""

    plan: Plan
    pointers: tuple[str, ...]


class Driver:
    """The text of one driver; one that reads the clock extends it (profiling_driver)."""

    def __init__(self, plan: Plan, kernels: Mapping[KernelSpec, NativeKernel], chosen: Schedule):
        self.plan = plan
        self.kernels = kernels
        self.chosen = chosen
        self.several, self.lines = chosen.threads > 1, list[str]()
        self.counters: list[str] = []  # of loops: all stack is taken at the entry
        # Whether one thread is alone here, and how many go on together.
        self.alone, self.threads = "%alone", "%threads"
        self.sizes = SizeTable(plan, scratch_needs(plan, kernels))
        self._names = 0
        self._checks = 0

    def text(self, triple: str) -> str:
        """The LLVM IR of the driver."""
        longest = max((len(s.buffers) for s in all_steps(self.plan)), default=0)
        symbols = sorted({kernel.symbol for kernel in with_variants(self.kernels.values())})
        head = [f'target triple = "{triple}"', ""]
        head += [f"declare void @{symbol}(ptr, ptr, i64, i64, ptr)" for symbol in symbols]
        head += ["declare void @barrier(ptr, ptr, i64)"] * self.several
        head += [
            "",
            "define i64 @driver(ptr %arguments, ptr %arena, i64 %thread, i64 %threads, "
            "ptr %counter) nounwind {",
            "entry:",
            f"  %table = alloca [{max(longest, 1)} x ptr], align 16",
        ]
        self._scratch()
        frame = self._root_frame()
        self._sequence(frame, self.chosen.steps)
        head += [f"  {name} = alloca i64" for name in self.counters]
        if self.sizes.is_used:
            head += [
                f"  %sizes.at = getelementptr ptr, ptr %arguments, i64 {self._pointers()}",
                "  %sizes = load ptr, ptr %sizes.at",
                *self.sizes.loads(),
            ]
        return "\n".join([*head, *self.lines, "  ret i64 0", "}", ""])

    def _scratch(self) -> None:
        verdict = str(verdict_start(self.plan.arena_bytes))
        if self.sizes.is_used:
            verdict = "%verdict.start"
            self.lines += [
                f"  %verdict.up = add i64 {self.sizes.arena_bytes()}, {PADDING - 1}",
                f"  {verdict} = and i64 %verdict.up, {-PADDING}",
            ]
        self.lines.append(f"  %verdict = getelementptr i8, ptr %arena, i64 {verdict}")
        if not self.several:
            self.lines.append(f"  %scratch = getelementptr i8, ptr %verdict, i64 {PADDING}")
            return
        self.counters.append("%mine")
        self.lines += [
            "  store i64 0, ptr %mine",
            "  %alone = icmp eq i64 %threads, 1",
            "  %runs0 = icmp eq i64 %thread, 0",
            f"  %scratch.0 = getelementptr i8, ptr %verdict, i64 {PADDING}",
            f"  %scratch.at = mul i64 %thread, {self._scratch_stride()}",
            "  %scratch = getelementptr i8, ptr %scratch.0, i64 %scratch.at",
        ]
        for thread in sorted({split.thread for split in self.chosen.steps} - {0}):
            self.lines.append(f"  %is{thread} = icmp eq i64 %thread, {thread}")
            self.lines.append(f"  %runs{thread} = or i1 %alone, %is{thread}")

    def _scratch_stride(self) -> str:
        """What stands for the bytes of scratch of each thread."""
        if self.sizes.is_used:
            return self.sizes.scratch_bytes()
        return str(scratch_stride(self.plan, self.kernels))

    def _pointers(self) -> int:
        """How many pointers to arrays the table of arguments has."""
        return sum(
            map(len, (self.plan.argument_types, self.plan.output_types, self.plan.constants))
        )

    def _root_frame(self) -> BoundPlan:
        """The plan's own buffers: table and arena."""
        plan = self.plan
        counts = (len(plan.argument_types), len(plan.output_types), len(plan.constants))
        pointers = [f"%p{slot}" for slot in range(sum(counts))]
        for slot, pointer in enumerate(pointers):
            self.lines.append(f"  {pointer}.at = getelementptr ptr, ptr %arguments, i64 {slot}")
            self.lines.append(f"  {pointer} = load ptr, ptr {pointer}.at")
        outputs = counts[0] + counts[1]
        return self._frame(
            plan, pointers[: counts[0]], pointers[counts[0] : outputs], "%arena",
            pointers[outputs:],
        )  # fmt: skip

    def _frame(
        self, plan: Plan, arguments: Sequence[str], outputs: Sequence[str], arena: str,
        constants: Sequence[str] = (),
    ) -> BoundPlan:  # fmt: skip
        pointers_of = {"argument": arguments, "output": outputs, "constant": constants}
        pointers = []
        for buffer in plan.buffers:
            if buffer.place != "arena":
                pointers.append(pointers_of[buffer.place][buffer.slot])
                continue
            name = f"%b{self._name()}"
            pointers.append(name)
            start = self.sizes.start_of(plan, buffer)
            self.lines.append(f"  {name} = getelementptr i8, ptr {arena}, i64 {start}")
        return BoundPlan(plan, tuple(pointers))

    def _name(self) -> int:
        """A number for names that have to be new."""
        self._names += 1
        return self._names

    # -- steps -------------------------------------------------------------------------------

    def _sequence(self, frame: BoundPlan, splits: Sequence[WorkSplit]) -> None:
        """A plan's steps in order; runs of those for one thread stand behind one branch."""
        steps = frame.plan.steps
        position = 0
        while position < len(steps):
            end = position
            while end < len(steps) and self._is_alone(steps[end], splits[end]):
                other = splits[end].barrier or splits[end].thread != splits[position].thread
                if other and end > position:
                    break
                end += 1
            if end == position:
                self._step_text(frame, steps[position], splits[position])
                position += 1
                continue
            self._for_one(frame, steps[position:end], splits[position])
            position = end

    def _is_alone(self, step: Step, split: WorkSplit) -> bool:
        """Whether one thread runs a step."""
        return self.several and not (isinstance(step, Check) or split.threads > 1 or split.inner)

    def _for_one(self, frame: BoundPlan, steps: Sequence[Step], split: WorkSplit) -> None:
        """Steps for one thread, before the first of which a barrier may stand."""
        if split.barrier:
            self._barrier()
        number = self._name()
        runs = f"%runs{split.thread}"
        self.lines.append(f"  br i1 {runs}, label %one{number}, label %all{number}")
        self.lines.append(f"one{number}:")
        self._on_one(frame, steps)
        self.lines.append(f"  br label %all{number}")
        self.lines.append(f"all{number}:")

    def _on_one(self, frame: BoundPlan, steps: Sequence[Step]) -> None:
        """Steps as a thread runs them that is alone with them."""
        several, self.several = self.several, False
        for step in steps:
            self._step_text(frame, step, _ONE)
        self.several = several

    def _step_text(self, frame: BoundPlan, step: Step, split: WorkSplit) -> None:
        """One step, as every thread that comes here runs it."""
        if split.barrier:
            self._barrier()
        self._unbarred_step_text(frame, step, split)

    def _unbarred_step_text(self, frame: BoundPlan, step: Step, split: WorkSplit) -> None:
        if isinstance(step, Check):
            self._check(frame, step)
        elif isinstance(step, Launch):
            self._launches(frame, step, split)
        elif split.decision is None:
            self._region(frame, step, split)
        else:
            self._decided_region(frame, step, split)

    def _region(self, frame: BoundPlan, step: Loop | Branch, split: WorkSplit) -> None:
        if isinstance(step, Loop):
            self._loop(frame, step, split)
        else:
            self._branch(frame, step, split)

    def _decided_region(self, frame: BoundPlan, step: Loop | Branch, split: WorkSplit) -> None:
        """A loop or branch that all threads go through, or thread 0 as if it were alone."""
        n, decision = self._name(), self._parts(split)
        before = self.alone, self.threads
        self.lines += [
            f"  %single{n} = icmp eq i64 {decision}, 1",
            f"  %alone{n} = or i1 {self.alone}, %single{n}",
            f"  %threads{n} = select i1 %alone{n}, i64 1, i64 {self.threads}",
            f"  %passes{n} = icmp ult i64 %thread, {decision}",
            f"  br i1 %passes{n}, label %through{n}, label %passed{n}",
            f"through{n}:",
        ]
        self.alone, self.threads = f"%alone{n}", f"%threads{n}"
        self._region(frame, step, split)
        self.alone, self.threads = before
        self.lines += [f"  br label %passed{n}", f"passed{n}:"]

    def _parts(self, split: WorkSplit) -> str:
        """What stands for the threads of a step."""
        if split.decision is None:
            return str(split.threads)
        return self.sizes.decision(split.decision)

    def _barrier(self) -> None:
        self.lines.append(f"  call void @barrier(ptr %counter, ptr %mine, i64 {self.threads})")

    def _launches(self, frame: BoundPlan, step: Launch, split: WorkSplit) -> None:
        """The kernel, or the one that takes its place at this size: if it gives each thread a part
        of its range."""
        parts = self._parts(split)
        kernel, n = self.kernels[step.kernel], self._name()
        variant = kernel.variant
        if variant is None:
            self._range(frame, step, kernel, parts)
            return
        size = self.sizes.operand(own_sizes(step)[variant.of.name])
        extent = self._extent(step, variant.kernel)
        self.lines += [
            f"  %many{n} = icmp sge i64 {size}, {variant.of.least}",
            f"  %parts{n} = icmp sge i64 {extent}, {parts}",
            f"  %apart{n} = and i1 %many{n}, %parts{n}",
            f"  br i1 %apart{n}, label %variant{n}, label %general{n}",
            f"variant{n}:",
        ]
        self._range(frame, step, variant.kernel, parts)
        self.lines += [f"  br label %launched{n}", f"general{n}:"]
        self._range(frame, step, kernel, parts)
        self.lines += [f"  br label %launched{n}", f"launched{n}:"]

    def _range(self, frame: BoundPlan, step: Launch, kernel: NativeKernel, parts: str) -> None:
        """The range of a kernel, or this thread's part."""
        if parts == "1":
            self._launch(frame, step, kernel, "0", self._extent(step, kernel))
        else:
            self._part(frame, step, kernel, parts)

    def _part(self, frame: BoundPlan, step: Launch, kernel: NativeKernel, parts: str) -> None:
        """This thread's part of the range; all of it where the call has one thread."""
        n = self._name()
        extent = self._extent(step, kernel)
        self.lines += [
            f"  %begin{n}.0 = mul i64 %thread, {extent}",
            f"  %begin{n}.1 = udiv i64 %begin{n}.0, {parts}",
            f"  %end{n}.0 = add i64 %begin{n}.0, {extent}",
            f"  %end{n}.1 = udiv i64 %end{n}.0, {parts}",
            f"  %begin{n} = select i1 {self.alone}, i64 0, i64 %begin{n}.1",
            f"  %end{n} = select i1 {self.alone}, i64 {extent}, i64 %end{n}.1",
        ]
        several = parts != str(self.chosen.threads)
        if several:
            self.lines += [
                f"  %has{n} = icmp ult i64 %thread, {parts}",
                f"  br i1 %has{n}, label %part{n}, label %parted{n}",
                f"part{n}:",
            ]
        self._launch(frame, step, kernel, f"%begin{n}", f"%end{n}")
        if several:
            self.lines += [f"  br label %parted{n}", f"parted{n}:"]

    def _extent(self, step: Launch, kernel: NativeKernel) -> str:
        """What stands for the range of a kernel."""
        return self.sizes.operand(substitute(kernel.extent, own_sizes(step)))

    def _launch(
        self, frame: BoundPlan, step: Launch, kernel: NativeKernel, begin: str, end: str
    ) -> None:
        n = self._name()
        for slot, buffer in enumerate(step.buffers):
            self.lines.append(f"  %t{n}_{slot} = getelementptr ptr, ptr %table, i64 {slot}")
            self.lines.append(f"  store ptr {frame.pointers[buffer]}, ptr %t{n}_{slot}")
        dims = "null"
        if kernel.sizes:
            sizes = own_sizes(step)
            first = self.sizes.consecutive([sizes[name] for name in kernel.sizes])
            dims = f"%dims{n}"
            self.lines.append(f"  {dims} = getelementptr i64, ptr %sizes, i64 {first}")
        self.lines.append(
            f"  call void @{kernel.symbol}(ptr %table, ptr {dims}, i64 {begin}, i64 {end}, "
            "ptr %scratch)"
        )

    def _check(self, frame: BoundPlan, check: Check) -> None:
        self._checks += 1
        type_ = _LLVM_TYPE[frame.plan.buffers[check.least].type.dtype]
        bound = None if check.bound is None else self._bound_of(check, type_)
        extremes = frame.pointers[check.least], frame.pointers[check.greatest]
        self.lines += check_text(self._name(), type_, *extremes, bound, self._checks)

    def _bound_of(self, check: Check, type_: str) -> str:
        """What stands for the bound of a check, in the type of what is checked."""
        assert check.bound is not None
        bound, name = self.sizes.operand(check.bound), f"%bound{self._name()}"
        if literal(check.bound) is not None or type_ == "i64":
            return bound
        self.lines.append(f"  {name} = trunc i64 {bound} to {type_}")
        return name

    # -- loops and branches ------------------------------------------------------------------

    def _inner(self, frame: BoundPlan, splits: Sequence[WorkSplit] | None) -> None:
        """The steps of a plan inside a loop or branch."""
        if splits is None:
            return self._on_one(frame, frame.plan.steps)
        self._sequence(frame, splits)

    def _loop(self, frame: BoundPlan, step: Loop, split: WorkSplit) -> None:
        """Runs of a plan. Where all threads go round, a barrier stands before each: it may read
        or write what another thread still works on in the run before."""
        n = self._name()
        every = bool(split.inner)
        self.counters.append(f"%count{n}")
        self.lines += [f"  store i64 0, ptr %count{n}", f"  br label %head{n}", f"head{n}:"]
        if every:
            self._barrier()
        self.lines.append(f"  %i{n} = load i64, ptr %count{n}")
        arena = "null" if step.memory is None else frame.pointers[step.memory]
        if step.condition is None:
            assert step.count is not None
            runs = self.sizes.operand(step.count)
            self.lines.append(f"  %more{n} = icmp slt i64 %i{n}, {runs}")
        else:
            assert step.flag is not None
            flag = frame.pointers[step.flag]
            reads = [frame.pointers[i] for i in step.reads]
            inner = self._frame(step.condition, reads, [flag], arena)
            self._inner(inner, split.inner[0] if every else None)
            if every:
                self._barrier()
            self.lines.append(f"  %flag{n} = load i8, ptr {flag}")
            self.lines.append(f"  %more{n} = icmp ne i8 %flag{n}, 0")
        self.lines += [f"  br i1 %more{n}, label %body{n}, label %done{n}", f"body{n}:"]
        bound = self._bound(frame, step, n)
        count = len(step.reads)
        inner = self._frame(step.body, bound[:count], bound[count:], arena)
        self._inner(inner, split.inner[-1] if every else None)
        self.lines += [
            f"  %i{n}.next = add i64 %i{n}, 1",
            f"  store i64 %i{n}.next, ptr %count{n}",
            f"  br label %head{n}",
            f"done{n}:",
        ]

    def _bound(self, frame: BoundPlan, step: Loop, n: int) -> list[str]:
        """Pointers to what the arguments and outputs of one run stand for."""
        at = f"%i{n}"
        if step.reverse:
            assert step.count is not None
            self.lines.append(f"  %at{n} = sub i64 {self.sizes.operand(step.count - 1)}, %i{n}")
            at = f"%at{n}"
        bound = []
        for k, (number, cut) in enumerate(zip((*step.reads, *step.writes), step.sliced)):
            pointer = frame.pointers[number]
            if cut:
                type = frame.plan.buffers[number].type
                size = self.sizes.operand(slice_bytes(type, step.count))
                self.lines.append(f"  %cut{n}_{k}.at = mul i64 {at}, {size}")
                self.lines.append(
                    f"  %cut{n}_{k} = getelementptr i8, ptr {pointer}, i64 %cut{n}_{k}.at"
                )
                pointer = f"%cut{n}_{k}"
            bound.append(pointer)
        return bound

    def _branch(self, frame: BoundPlan, step: Branch, split: WorkSplit) -> None:
        n = self._name()
        arena = "null" if step.memory is None else frame.pointers[step.memory]
        reads = [frame.pointers[i] for i in step.reads]
        writes = [frame.pointers[i] for i in step.writes]
        self.lines += [
            f"  %predicate{n} = load i8, ptr {frame.pointers[step.predicate]}",
            f"  %holds{n} = icmp ne i8 %predicate{n}, 0",
            f"  br i1 %holds{n}, label %then{n}, label %else{n}",
        ]
        for number, (label, plan) in enumerate(zip(("then", "else"), step.plans)):
            self.lines.append(f"{label}{n}:")
            inner = self._frame(plan, reads, writes, arena)
            self._inner(inner, split.inner[number] if split.inner else None)
            self.lines.append(f"  br label %done{n}")
        self.lines.append(f"done{n}:")


_ONE = WorkSplit(1, False, "")

"""How threads wait for each other in native code: the pause between two looks, and `barrier`."""

from __future__ import annotations

PADDING = 128
"""Two cache lines: processors fetch them in pairs."""
SPINS = 256
"""Times a thread looks, some microseconds, before it lets others have the processor: where other
processes want it too, the thread that is waited for may be among those that cannot run."""


def pause_text(triple: str) -> tuple[str, str]:
    """The declaration and the call of the instruction that says this thread only waits."""
    if triple.startswith(("x86_64", "i686")):
        return "declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"
    if triple.startswith(("aarch64", "arm64")):
        return "declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"
    return "", ""


def yield_of(triple: str) -> str:
    """The function of the system that lets others have the processor."""
    return "SwitchToThread" if "windows" in triple else "sched_yield"


def waiting_text(triple: str, counter: str, wanted: str, behind: str) -> str:
    """Blocks from `look` on, entered from `several`, that wait until the number at the pointer
    `counter` is `wanted` at least, and go on at `behind`."""
    _, pause = pause_text(triple)
    return f"""look:
  %count = phi i64 [ 0, %several ], [ %more, %spin ], [ %count, %yield ]
  %reached = load atomic i64, ptr %{counter} acquire, align 8
  %enough = icmp uge i64 %reached, %{wanted}
  br i1 %enough, label %{behind}, label %wait
wait:
  %long = icmp uge i64 %count, {SPINS}
  br i1 %long, label %yield, label %spin
spin:
  {pause}
  %more = add i64 %count, 1
  br label %look
yield:
  %yielded = call i32 @{yield_of(triple)}()
  br label %look
"""


def barrier_text(triple: str) -> str:
    """The LLVM IR of `barrier`: adds 1 to the counter, and waits until all have. `mine` counts what
    the counter will be when they have."""
    declaration, _ = pause_text(triple)
    return f'''target triple = "{triple}"

{declaration}
declare i32 @{yield_of(triple)}()

define void @barrier(ptr %counter, ptr %mine, i64 %threads) nounwind {{
entry:
  %alone = icmp eq i64 %threads, 1
  br i1 %alone, label %done, label %several
several:
  %last = load i64, ptr %mine
  %all = add i64 %last, %threads
  store i64 %all, ptr %mine
  %before = atomicrmw add ptr %counter, i64 1 acq_rel
  br label %look
{waiting_text(triple, "counter", "all", "done")}done:
  ret void
}}
'''

"""The native code of the thread pool, and the layout of its memory.

A worker looks at its ticket, then sleeps until that changes; `share` gives a call to workers and
does part 0 of it; `stop` ends the workers. No code here allocates, and none touches Python.

How a worker sleeps is one of two forms of `prepare`, `park` and `unpark`: futexes on Linux, where
the machine's number of that system call is known, and elsewhere a condition variable of POSIX in
the worker's line. What is computed knows nothing of it.
"""

from __future__ import annotations

from graphc.codegen.program.barrier import PADDING, pause_text, waiting_text

# Fields of the pool's memory, each on a pair of cache lines of its own: the lock, what to do, how
# many workers are done, the counter of the driver's barrier; then a line for each worker.
LOCK, JOB, DONE, COUNTER, WORKERS = (PADDING * i for i in range(5))
# Of a job.
DRIVER, TABLE, ARENA, THREADS = JOB, JOB + 8, JOB + 16, JOB + 24
# Of a worker's line: what changes when there is work, whether it sleeps, and what stays.
TICKET, SLEEPS, POOL, NUMBER, PAUSES = 0, 4, 8, 16, 24
# Behind them a mutex and a condition variable, where they are used: 64 bytes are enough for either.
MUTEX, CONDITION = PADDING, PADDING + 64
LINE = 2 * PADDING

SYSTEM_CALLS = {"x86_64": 202, "aarch64": 98}  # of futex, by machine
_WAIT, _WAKE = 128, 129  # for threads of one process


FUNCTIONS = "share", "worker", "stop", "pauses", "prepare"
"""Whose addresses `functions` tells, in this order."""


def futex_text(number: int) -> str:
    """Sleeping by the system call of this number."""
    return f"""
declare i64 @syscall(i64, ...)

define internal void @prepare(ptr %line) nounwind {{
entry:
  ret void
}}

define internal void @park(ptr %line, i32 %seen) nounwind {{
entry:
  %woken = call i64 (i64, ...) @syscall(i64 {number}, ptr %line, i32 {_WAIT}, i32 %seen, ptr null)
  ret void
}}

define internal void @unpark(ptr %line) nounwind {{
entry:
  %count = call i64 (i64, ...) @syscall(i64 {number}, ptr %line, i32 {_WAKE}, i32 1)
  ret void
}}
"""


def condition_text() -> str:
    """Sleeping by the condition variable of a worker's line."""
    mutex = f"%mutex = getelementptr i8, ptr %line, i64 {MUTEX}"
    condition = f"%condition = getelementptr i8, ptr %line, i64 {CONDITION}"
    return f"""
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)

define internal void @prepare(ptr %line) nounwind {{
entry:
  {mutex}
  {condition}
  %s0 = call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  %s1 = call i32 @pthread_cond_init(ptr %condition, ptr null)
  ret void
}}

define internal void @park(ptr %line, i32 %seen) nounwind {{
entry:
  {mutex}
  {condition}
  %s0 = call i32 @pthread_mutex_lock(ptr %mutex)
  br label %look
look:
  %ticket = load atomic i32, ptr %line seq_cst, align 4
  %same = icmp eq i32 %ticket, %seen
  br i1 %same, label %wait, label %new
wait:
  %s1 = call i32 @pthread_cond_wait(ptr %condition, ptr %mutex)
  br label %look
new:
  %s2 = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}}

define internal void @unpark(ptr %line) nounwind {{
entry:
  {mutex}
  {condition}
  %s0 = call i32 @pthread_mutex_lock(ptr %mutex)
  %s1 = call i32 @pthread_cond_signal(ptr %condition)
  %s2 = call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}}
"""


def pool_text(triple: str, parking: str) -> str:
    """The LLVM IR of workers and of what hands them work, sleeping by `parking`, one of the texts
    above; `functions` tells addresses."""
    declaration, pause = pause_text(triple)
    stores = "".join(
        f"  %t{i} = getelementptr ptr, ptr %table, i64 {i}\n  store ptr @{name}, ptr %t{i}\n"
        for i, name in enumerate(FUNCTIONS)
    )

    def field(name: str, base: str, offset: str | int) -> str:
        return f"%{name} = getelementptr i8, ptr %{base}, i64 {offset}"

    return f'''target triple = "{triple}"

{declaration}
declare i32 @sched_yield()
{parking}

define void @functions(ptr %table) nounwind {{
entry:
{stores}  ret void
}}

define internal void @pauses(i64 %count) nounwind {{
entry:
  br label %one
one:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  {pause}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %one, label %done
done:
  ret void
}}

define internal ptr @worker(ptr %line) nounwind {{
entry:
  {field("sleeps", "line", SLEEPS)}
  {field("pool.p", "line", POOL)}
  %pool = load ptr, ptr %pool.p
  {field("number.p", "line", NUMBER)}
  %number = load i64, ptr %number.p
  {field("pauses.p", "line", PAUSES)}
  %pauses = load i64, ptr %pauses.p
  {field("driver.p", "pool", DRIVER)}
  {field("table.p", "pool", TABLE)}
  {field("arena.p", "pool", ARENA)}
  {field("threads.p", "pool", THREADS)}
  {field("done", "pool", DONE)}
  {field("counter", "pool", COUNTER)}
  br label %watch
watch:
  %seen = phi i32 [ 0, %entry ], [ %seen, %sleep ], [ %ticket, %finished ]
  br label %look
look:
  %i = phi i64 [ 0, %watch ], [ %i.next, %spin ]
  %ticket = load atomic i32, ptr %line acquire, align 4
  %new = icmp ne i32 %ticket, %seen
  br i1 %new, label %go, label %wait
wait:
  %long = icmp uge i64 %i, %pauses
  br i1 %long, label %sleep, label %spin
spin:
  {pause}
  %i.next = add i64 %i, 1
  br label %look
sleep:
  store atomic i32 1, ptr %sleeps seq_cst, align 4
  call void @park(ptr %line, i32 %seen)
  store atomic i32 0, ptr %sleeps seq_cst, align 4
  br label %watch
go:
  %driver = load ptr, ptr %driver.p
  %end = icmp eq ptr %driver, null
  br i1 %end, label %ended, label %run
run:
  %table = load ptr, ptr %table.p
  %arena = load ptr, ptr %arena.p
  %threads = load i64, ptr %threads.p
  %status = call i64 %driver(ptr %table, ptr %arena, i64 %number, i64 %threads, ptr %counter)
  br label %finished
finished:
  %before = atomicrmw add ptr %done, i64 1 release
  br label %watch
ended:
  ret ptr null
}}

define internal void @wake(ptr %pool, i64 %workers) nounwind {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %i.next, %woken ]
  %more = icmp slt i64 %i, %workers
  br i1 %more, label %one, label %done
one:
  %at.0 = mul i64 %i, {LINE}
  %at = add i64 %at.0, {WORKERS}
  {field("line", "pool", "%at")}
  %ticket = atomicrmw add ptr %line, i32 1 seq_cst
  {field("sleeps.p", "line", SLEEPS)}
  %sleeps = load atomic i32, ptr %sleeps.p seq_cst, align 4
  %asleep = icmp ne i32 %sleeps, 0
  br i1 %asleep, label %call, label %woken
call:
  call void @unpark(ptr %line)
  br label %woken
woken:
  %i.next = add i64 %i, 1
  br label %next
done:
  ret void
}}

define internal i64 @share(ptr %pool, ptr %driver, ptr %table, ptr %arena, i64 %threads) nounwind {{
entry:
  %exchange = cmpxchg ptr %pool, i64 0, i64 1 acquire monotonic
  %got = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %got, label %several, label %alone
alone:
  %alone.status = call i64 %driver(ptr %table, ptr %arena, i64 0, i64 1, ptr null)
  ret i64 %alone.status
several:
  {field("driver.p", "pool", DRIVER)}
  {field("table.p", "pool", TABLE)}
  {field("arena.p", "pool", ARENA)}
  {field("threads.p", "pool", THREADS)}
  {field("done", "pool", DONE)}
  {field("counter", "pool", COUNTER)}
  store ptr %driver, ptr %driver.p
  store ptr %table, ptr %table.p
  store ptr %arena, ptr %arena.p
  store i64 %threads, ptr %threads.p
  store i64 0, ptr %counter
  store i64 0, ptr %done
  %workers = sub i64 %threads, 1
  call void @wake(ptr %pool, i64 %workers)
  %status = call i64 %driver(ptr %table, ptr %arena, i64 0, i64 %threads, ptr %counter)
  br label %look
{waiting_text(triple, "done", "workers", "joined")}joined:
  store atomic i64 0, ptr %pool release, align 8
  ret i64 %status
}}

define internal i64 @stop(ptr %pool, i64 %workers) nounwind {{
entry:
  %exchange = cmpxchg ptr %pool, i64 0, i64 1 acquire monotonic
  %got = extractvalue {{ i64, i1 }} %exchange, 1
  br i1 %got, label %end, label %busy
end:
  {field("driver.p", "pool", DRIVER)}
  store ptr null, ptr %driver.p
  call void @wake(ptr %pool, i64 %workers)
  ret i64 1
busy:
  ret i64 0
}}
'''

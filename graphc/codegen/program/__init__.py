"""A plan as one native program.

link takes a plan, has its kernels lowered and compiled (where many are missing, some of them by a
compile_worker, a process whose side is compile_worker_main), and loads them behind a driver. Of a
kernel there is its object code (compiled_spec) and, once it is loaded, a native_kernel, or a
function of Python's (host_kernels). on_threads says how its steps run on
several threads; driver writes the driver (check_text the checks in it,
size_table what it reads of sizes, by size_expressions, barrier what its threads wait at),
profiling_driver one that reads the clock; single_launch is that of all plans with one launch. What
comes out is a native_program. standalone gives the same plan as LLVM IR, for any target, and loads
nothing. run_plan runs the same plan with its loops interpreted.
"""

"""A plan as one native entry.

link takes a plan, has its kernels lowered and compiled (compile_worker: in two processes where many
are missing), and loads them behind a driver (driver; barrier is what its threads wait at). What
comes out is a native_program. run_plan runs the same plan with its loops interpreted.
"""

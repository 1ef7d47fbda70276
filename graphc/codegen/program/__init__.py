"""A plan as one native program.

link takes a plan, has its kernels lowered and compiled (where many are missing, some of them by a
compile_worker, a process whose side is compile_worker_main), and loads them behind a driver
(driver; barrier is what its threads wait at). What comes out is a native_program. run_plan runs the
same plan with its loops interpreted.
"""

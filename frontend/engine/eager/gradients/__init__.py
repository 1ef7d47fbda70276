"""The reverse sweep, and what it runs.

grad has what users ask (`backward`, `grad`), backward the sweep over the tape. gradient_programs
runs the rules of ops on arrays; piecewise and non_differentiable have nodes whose gradient is zero,
or an error. gradient_worker_main is the other side of kernels/gradient_worker.
"""

"""Compiled functions: from a trace to native code that is called.

compiler holds the compiled function and picks, for a call, its specialization: a trace with its
guards and executables. differentiable runs forward and backward of one apart, so that it can be
differentiated from outside; freezing prepares what depends on weights that stay.
"""

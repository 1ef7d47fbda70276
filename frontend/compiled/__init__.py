"""Compiled functions: from a trace to native code that is called.

compiler holds the compiled function and picks, for a call, its specialization: a trace with its
guards and executables, made with the function's options. inline_cache is the short way to that of
the last call. differentiable runs forward and backward of one apart, so that it can be
differentiated from outside; results says what results are beside their values; freezing prepares
what depends on weights that stay. tracers hand out the graph of a function without compiling it.
"""

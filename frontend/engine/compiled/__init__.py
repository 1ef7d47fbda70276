"""Compiled functions: from a trace to native code that is called.

compiler holds the compiled function and picks, for a call, its specialization. program has what one
trace gave and the compiler made of it, a TracedProgram, which never changes; a Specialization is
that at certain sizes, and what calls run. inline_cache is the short way to that of the last call.
differentiable runs forward and backward of one apart, so that it can be differentiated from
outside; results says what results are beside their values; freezing prepares what depends on
weights that stay. tracers hand out the graph of a function without compiling it.
"""

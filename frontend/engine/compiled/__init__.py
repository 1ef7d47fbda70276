"""Compiled functions: from a trace to native code that is called.

compiler holds the compiled function; options is what it can be told. specializations picks, for a
call, the one that serves it: by its signature, by free_numbers and sizing where these are open;
inline_cache is the short way to that of the last call. deciders and call_guards are what has to
hold then. program has what one trace gave and the compiler made of it, a TracedProgram, which never
changes; a specialization is that at certain sizes, and what calls run: inputs in their order,
results with what they are beside values, overlap where arguments share memory, packing and
packed_copies of weights, freezing of those that stay. traced_function and differentiable run
forward and backward apart, within a budget of bytes; staged runs native parts with exchanges
between. fallback and eager_parts are what runs eagerly, stance is whether anything is compiled.

Tools: tracers hand out the graph of a function without compiling it; explanation and trace_history
are what `explain()` says, inspection and object_runs what graphc.debug looks at, dumping writes
files, building is what `graphc build` takes.
"""

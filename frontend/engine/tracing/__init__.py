"""Tracing: the same code run once on tensors that record a graph.

tracer runs a function in a session, which captures the tensors met on the way (captured) and turns
them into inputs of the graph; naming gives them names, scope the module and phase they are in.
mutations follows views and what is changed in place, layouts says what shares memory; regions and
bodies trace what loops and branches run, histories what was computed outside and has a gradient;
known_values are those that a trace knows.

Of Python: attributes and assigned are what a function leaves in Modules and in plain numbers,
call_numbers what Python computes anew for each call, assertions, hooks_inside, watched_hooks and
effects what it does besides, new_objects what it makes of the user's classes and returns; exchanges
are its messages to other processes. guards/ finds what functions read by name. leaving is how a
trace ends, undoing what is put back where it gave no program.

current_trace is what the parts of a session ask of the trace they belong to.
"""

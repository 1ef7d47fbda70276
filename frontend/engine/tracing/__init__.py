"""Tracing: the same code run once on tensors that record a graph.

tracer runs a function in a session, which captures the tensors met on the way and turns them into
inputs of the graph (naming gives them names, sources says where they come from at each call); tree
flattens arguments and results; mutations follows views and what is changed in place, layouts says
what shares memory; regions and bodies trace what loops and branches run. guards: what a
trace depended on outside its arguments.
"""

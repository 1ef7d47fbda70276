"""Graphs: what they are made of, their text, and the rules that every one keeps.

nodes has values, nodes and graphs, types what a value is; dims are extents known only at run time
(dim_terms their order, symbols the names in a graph, instances a graph at certain sizes,
size_floats floats made of sizes). What bounds leave open is asked in undecided, and answered by an
example in size_guards; stand_in makes ints and floats of Python out of open ones.

builder is the one way to make a graph, with handle for expressions and own_frames for the user's
line; registry knows the ops by name; draft is a graph that a pass is changing, copying copies, and
recording hears what passes tell. printer, parser, extent_text and size_grammar are the text form;
graph_queries what is asked of paths; verifier holds the rules.
"""

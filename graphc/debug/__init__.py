"""Looking at the compiler: what `graphc` prints, and what it is made of.

cli is the command line, commands/ its commands, load and program get a graph out of a file, running
runs it, traced is what a tracer hands over, files and terminal are how things are written. dump,
dump_files and dot show levels; ledger, decisions, cut_decisions and places say why and where;
summary, graph_diff and summary_diff compare (flat_graph numbers nodes for that); cache tells what
is on disk. reduction, reduction_check and reduction_steps make a failing graph smaller. profile/,
report/, compare/ and verification/ are tools of their own.
"""

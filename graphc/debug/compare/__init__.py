"""A ladder: the same step from eager to compiled, each rung one change more.

`rungs` says what there is, `op_kernels_plan` and `phase_parts` make the rungs that no option of
the compiler makes, `worker` is the process of a rung, `ladder` has all take turns, `text` and `svg`
show what came out.

`rung_compiler` is what compiles in a rung, `graph_runs` runs a graph that no tracer made, `peers`
the same file by another package; `surroundings` says on what machine, `page` is the ladder as HTML.
"""

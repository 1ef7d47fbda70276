"""Elements of a graph's values as loop values.

evaluator follows index maps and scalar rules from a wanted element to buffers; memory loads and
stores elements of those; addresses turns index expressions into integers of loops, positions
numbers of loops into index expressions; algebra is what scalar rules run over (functions are in
libm); reduction sums, as combination says, through outer_blocks; copier and shuffles move blocks
through registers; leaf_loops is where loops inside leaves are written, loop_cut where ranges are
cut into tiles.
"""

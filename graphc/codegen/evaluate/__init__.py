"""Elements of a graph's values as loop values.

evaluator follows index maps and scalar rules from a wanted element to buffers; memory loads and
stores elements of those; addresses turns index expressions into integers of loops, positions
numbers of loops into index expressions; algebra (with
vector_math for f32, wide_math for f32 by way of f64, double_math for f64, and integer_math) is what
scalar rules run over (double_pairs and double_coefficients serve double_math); reduction sums, as
combination says, through outer_blocks; copier and shuffles move blocks through registers; loop_cut
is where ranges of loops are cut into tiles.
"""

"""What all strategies write with: emitter has the body's builder, its operands and results;
axes makes rows, columns, k and the batch the axes of a nest; sums keeps sums in scratch,
guarded_sums skips products that do not exist; tile_results stores a tile's results,
transposed_epilogue those that lie along another axis.
"""

"""The recipe `nest`: elementwise work, movements and reductions as nested loops.

`rows` is the plain one, over the outputs' axes in the order of memory; the others are chosen where
they fit: `columns` (sums over leading axes), `transposed` (an input lies along another axis),
`phases` (results that are interleaved), `stages` (long chains of operations). `row_values`,
`widths` and `destinations` are what they share.
"""

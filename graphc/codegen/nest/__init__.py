"""The recipe `nest`: elementwise work, movements and reductions as nested loops.

`rows` is the plain one, over the outputs' axes in the order of memory; the others are chosen
instead where they fit: `columns` (sums over leading axes), `turned` (an input lies along another
axis), `phases` (results that are interleaved), `stages` (long chains of operations). `reduction`,
`row_values` and `widths` are what they share.
"""

"""The recipe `nest`: elementwise work, movements and reductions as nested loops.

`recipe` chooses. `rows` is the plain form, over the outputs' axes in the order of memory; the
others are taken where they fit: `columns` (sums over leading axes), `transposed` (an input lies
along another axis), `phases` (results that are interleaved), `stages` (long chains of operations).
`update` is a recipe of its own, for a box of a tensor that is changed where it lies.
`problem` is what they are asked about, `emitter` what they write with; `axes` and `element_nest`
make a nest of it, `kept_values` has what is kept of a row or a block; `row_values`, `widths` and
`destinations` are what they share. `arrays` is for the runner of nests.
"""

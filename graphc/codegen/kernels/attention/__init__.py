"""Kernels of attention and its gradient: scores stay in scratch, a block of rows at a time.

In reading order: `nest` (heads, and blocks of their rows), `heads` (sizes, scratch, tiles inside of
a block), `operands` (copies of q, k, v), `parts` (products of tiles, softmax of rows), `results`
(where outputs go); then `forward` and `backward`, the stages and leaves of each.

`plan` has the sizes that follow from a body and a target; `arrays` runs the nests in NumPy.
"""

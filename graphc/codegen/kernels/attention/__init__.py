"""Kernels of attention and its gradient: scores stay in scratch, a block of rows at a time.

In reading order: `heads` (sizes, loops, scratch), `operands` (copies of q, k, v), `parts` (products
of tiles, softmax of rows), `results` (where outputs go); then `forward` and `backward`.

`plan` has the sizes that follow from a body and a target.
"""

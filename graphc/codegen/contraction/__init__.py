"""The recipe `contract`: matrix products and convolutions as loops around a register tile.

In reading order: `view` (the op as out[b, m, n] = Σ_k left · right), `tiles`;
`model` and `operands` (candidates, their cost, a `choice`), `recipe`; then what writes the
loops: `order` (what all orders of loops need), `tiled` (the register tile), the operands as a tile reads them (`broadcast_operand`,
`vector_operand`, copied by `panel` and `box`), and the orders themselves, first of all
`by_columns`. docs/contractions.md tells how it works.
"""

"""The recipe `contract`: matrix products and convolutions as loops around a register tile.

In reading order: `view` (the op as out[b, m, n] = Σ_k left · right), `tiles`, `cost_model`,
`operands`
(candidates, their cost, a `choice`), `recipe`. Then what writes the loops: `loop_order` (what all
need), `tiled` (the register tile), the operands as a tile reads them (`broadcast_operand` and
`vector_operand`, copied by `panel` and `halo`), and the orders themselves, `unblocked` first.
docs/contractions.md tells how it works.
"""

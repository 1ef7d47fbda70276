"""The recipe `contract`: matrix products and convolutions as loops around a register tile.

In reading order, each folder resting on those before it:

- `problem`: the op as a sum over k of products
- `cost`: tiles, blocks and copies to choose from, and what they cost
- `emission`: what all strategies write with
- `operands`: how a tile reads, and the copies it reads from
- `strategies`: the table, and one file each
- `recipe` chooses a strategy and writes its nest; `arrays` gives the runner of nests its operands

docs/contractions.md tells how all of it works.
"""

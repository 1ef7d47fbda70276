"""The recipe `contract`: matrix products and convolutions as loops around a register tile.

In reading order: `view` and `problem` (the op as a sum over k of products, one operand broadcast,
the other read by vectors), `strategies` (the table, and the choice), `recipe`.

A strategy is one file with a plan: `unblocked` first, then `blocked`, `split_k`, `parity_split`,
`gemv`, `direct_conv`, `tap_list_conv`, `depthwise_wgrad`, `grouped` (of bf16 and bytes),
`paired_windows` (of bf16), `sized`. What they compose:

- to find plans: `costs`, `tiles` (the register tile), `tilings`, `vector_read`, `cache_blocks`,
  `windows` and `lines` (which taps a convolution has), how copies lie (`halo_plan`,
  `broadcast_packing`);
- to make nests: `axes` (rows, columns, k, and the loops over the batch), and leaves and stages:
  `register_tile`, its operands (`broadcast_operand`, `vector_operand`) and their copies (`panel`,
  `halo`, `k_groups`, `pairs_view`, with `least_magnitude`), `sums` in scratch, `tap_list`, and what
  becomes of results (`tile_results`, `transposed_epilogue`, `guarded_sums`). These write with an
  `emitter`, and sums in the order of `k_blocks`.

`arrays` gives the runner of nests its operands. `winograd` is a recipe of its own, its plan of the
same form.
docs/contractions.md tells how all of it works.
"""

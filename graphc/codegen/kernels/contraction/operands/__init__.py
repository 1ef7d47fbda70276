"""Operands of a register tile: read where they lie, or from a copy.

broadcast_operand is the one whose elements fill all lanes, vector_operand the one that is read by
vectors; panel and halo are copies, of a matrix's tiles and of what a window sweeps over, which is
the broadcast operand's in broadcast_halo, over planes of any size; k_groups are copies by pairs of
bf16 and quads of bytes, block_rows and block_columns quads of blocks that have scales; pairs_view
are the pairs of a convolution, of which least_magnitude notes what is nearest to zero.
"""

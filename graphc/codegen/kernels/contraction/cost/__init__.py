"""What strategies choose among, and what it costs. Nothing here writes loops.

tiles has the register tile, columns and tiles of results; costs what moves and sums cost; tilings
how rows, columns and k are cut; vector_read how vectors of the other operand are read; cache_blocks
the blocks that stay in caches; halo_plan and broadcast_packing how copies of operands lie.
winograd has Winograd's sums, whose kernels are another recipe's.
"""

"""What a contraction is, before anything is chosen.

view has the op as a sum over k of products, one operand broadcast, the other read by vectors;
problem a body that is built around it, as strategies are asked about it; coordinates which of its
extents they may find open; windows and lines which taps a convolution has; k_blocks the fixed order
of sums.
"""

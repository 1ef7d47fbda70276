"""How a contraction is computed: one strategy a file, each with a plan, its cost and its nest.

table has all of them, and the choice. unblocked is the first to read, then blocked, split_k,
parity_split, gemv, direct_conv, tap_list_conv, depthwise_wgrad, grouped (of bf16 and bytes),
paired_windows (of bf16), scaled_blocks (of integers in blocks), open_columns and sized (of open
sizes). Their innermost loops: register_tile, and tap_list where a list of the taps that exist is
followed.
"""

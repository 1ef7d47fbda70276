"""Passes over graphs, a file each; pipelines says which run at which level, in which order.

rewrite drives rules, which patterns declares: simplify, simplify_shapes, tree_products,
simplify_regions, fold_constants, common_subexpressions and dead_code, all to their joint fixed
point in canonicalize; merge_products makes products with the same matrix one, and gradients of
convolutions with few images. sink_reshapes moves reshapes behind elementwise work; decompose
expands composites. layouts stores weights as products read them, split_frozen computes once what
frozen inputs decide, dequantized finds weights of few bits, recompute chooses what a whole step
keeps, and split_exchanges cuts where processes exchange values. For level *relaxed*:
attention_sites and recognize_attention, winograd.
recorder is what passes did, for whoever asks.
"""

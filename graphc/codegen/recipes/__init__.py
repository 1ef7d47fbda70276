"""Kernel bodies → loops: lowering strategies, one recipe for each kind of anchor.

lower picks the recipe: nest (elementwise, index maps, reductions), contraction (products,
convolutions), attention, scan, scatter, sort. preferred_layouts tells passes how contractions would
like their operands to lie.
"""

"""Kernel bodies → loops: lowering strategies, one recipe for each kind of anchor.

lower picks the recipe: elementwise (the recipe `nest`: also index maps and reductions), contraction
(products, convolutions), winograd, attention, scan, scatter, sort, serial. preferred_layouts tells
passes how contractions would like their operands to lie. common is what several begin with; typical
and size_class are for sizes known only at run time: which numbers costs are compared for, and which
kernels get a variant.
"""

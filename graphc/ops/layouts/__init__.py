"""Ops that nobody writes: passes put them in, so that operands lie as products read them.

packing stores matrices in the order of a product's register tiles, quads bytes as instructions for
four of them take them (passes/layouts.py); winograd is a convolution as transformed tiles and their
products (passes/winograd.py).
"""

from graphc.ops.layouts import packing, quads, winograd

__all__ = ["packing", "quads", "winograd"]

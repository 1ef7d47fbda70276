"""Differentiation: the reverse sweep, what is derived from it, and the rules of region ops.

joint derives the backward pass as a graph, with the rules of ops, regions for ops that hold graphs
and parts for values made of several; sweep is the one reverse sweep. partition decides what
backward saves and what it computes again, by bottlenecks and a minimum cut; cut shares a graph
between an early part and a later one. numeric holds derivatives against differences.
"""

from graphc.autodiff import regions as regions  # gives the region ops their gradient rules

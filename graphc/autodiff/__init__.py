"""Differentiation: the reverse sweep, what is derived from it, and the rules of region ops."""

from graphc.autodiff import regions as regions  # gives the region ops their gradient rules

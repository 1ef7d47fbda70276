"""Winograd's sums in one kernel: `plan` cuts it, `recipe` is its nest, stages and leaves.

`arrays` runs the nest in NumPy. What it costs stands with contractions (contraction/cost).
"""

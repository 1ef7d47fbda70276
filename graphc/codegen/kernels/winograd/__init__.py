"""Winograd's sums in one kernel: `plan` cuts it, `recipe` is its nest, stages and leaves.

`arrays` runs the nest in NumPy. `gain` compares its cost (contraction/cost/winograd.py) with the
direct kernel's, for the pass that puts it in.
"""

"""Eager mode: compute now, record a tape.

dispatch applies an op to tensors (promotion first makes their dtypes one), on NumPy or on native
kernels (native_ops), and records it on the tape; backward sweeps over that, as gradients
asks it to. non_differentiable
holds nodes of the tape that have no gradient, and say so.
"""

"""Eager mode: compute now, record a tape.

dispatch applies an op to tensors and records it, promotion first makes their dtypes one, spreading
computes with operands of two shapes, autocasting casts as `autocast` says; prepared is what is
found out once about an op on operands of some types. tape is what ran, node_names what PyTorch
calls its nodes. host_ops are those that Python computes, reinterpreting looks at bytes as another
dtype, uncompiled says what ops mean on dtypes that graphs do not compute with, complex_forms what
those on complex numbers are on pairs of reals, fused changes several tensors by one kernel.
kernels/ computes, gradients/ sweeps over the tape.
"""

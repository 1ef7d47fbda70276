"""Functions of matrices: factors, systems, spectra, norms.

lapack declares what NumPy's LAPACK computes, or what loops over columns do where it has nothing:
matrix_kernels, symmetric_indefinite. All of those are of the kind `host`. norms are composites.
Products of matrices are contractions (contract.py).
"""

from graphc.ops.linear_algebra import lapack, norms

__all__ = ["lapack", "norms"]

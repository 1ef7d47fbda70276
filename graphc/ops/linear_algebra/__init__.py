"""Functions of matrices: factors, systems, spectra, norms.

lapack declares what NumPy's LAPACK computes, or what loops over columns do where it has nothing:
matrix_kernels, symmetric_indefinite. complex_lapack has the same on complex numbers. All of those
are of the kind `host`. norms are composites.
Products of matrices are contractions (contract.py).
"""

from graphc.ops.linear_algebra import complex_lapack, lapack, norms

__all__ = ["complex_lapack", "lapack", "norms"]

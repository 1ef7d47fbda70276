"""Elementwise functions beyond arithmetic (elementwise.py), and how they are computed.

trigonometric and bitwise call the C library, and integer operations. special has exponentials,
logarithms, gamma and error functions; bessel (its series: chebyshev_coefficients), airy and
quantiles are computed in f64 whatever the dtype. number_functions are those that NumPy computes
(with incomplete_gamma), and drawn_numbers what its generators draw, in compiled code too.
"""

from graphc.ops.scalar_functions import (
    airy,
    bessel,
    bitwise,
    drawn_numbers,
    number_functions,
    quantiles,
    special,
    trigonometric,
)

__all__ = [
    "airy",
    "bessel",
    "bitwise",
    "drawn_numbers",
    "number_functions",
    "quantiles",
    "special",
    "trigonometric",
]

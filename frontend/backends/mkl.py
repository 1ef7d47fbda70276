"""MKL is not used: products and loops are the compiler's own."""

from frontend.namespace.stubs import stubs

globals().update(stubs("backends.mkl"))

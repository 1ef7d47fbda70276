"""`frontend.backends`: the names under which PyTorch's scripts ask for and tune backends. There is
none but the compiler's own."""

from frontend.backends import cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]

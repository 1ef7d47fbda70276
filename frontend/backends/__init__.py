"""`frontend.backends`: the names under which PyTorch's scripts ask for and tune backends. There is
none but the compiler's own."""

from frontend.backends import (
    cpu,
    cuda,
    cudnn,
    mha,
    mkl,
    mkldnn,
    mps,
    openmp,
    opt_einsum,
    quantized,
)

__all__ = [
    "cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized",
]  # fmt: skip

fp32_precision = "none"

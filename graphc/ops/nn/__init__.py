"""What layers are made of, each an op with a gradient rule of its own, most of them composites.

activations are elementwise. products (a linear layer), embedding, attention, normalization and
recurrent (cells) are what models are built of; pooling reduces sliding windows (windows.py, beside
the movements); resampling is interpolation, sampling what is read at places that are data; boxes
are those of detection; sparse_products what a matrix of few elements is multiplied by;
quantization is integers that stand for floats, int_convolution
convolutions of them, block_products products whose blocks along k have scales; losses end a
training step.
"""

from graphc.ops.nn import (
    activations,
    attention,
    block_products,
    boxes,
    embedding,
    int_convolution,
    losses,
    normalization,
    pooling,
    products,
    quantization,
    recurrent,
    resampling,
    sampling,
    sparse_products,
)

__all__ = [
    "activations",
    "attention",
    "block_products",
    "boxes",
    "embedding",
    "int_convolution",
    "losses",
    "normalization",
    "pooling",
    "products",
    "quantization",
    "recurrent",
    "resampling",
    "sampling",
    "sparse_products",
]

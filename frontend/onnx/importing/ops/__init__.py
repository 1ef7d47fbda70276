"""What each ONNX operator means, a file per family; importing this folder fills the table.

- elementwise: one element at a time, with NumPy's broadcasting; comparisons, bits, casts
- activations: functions of one tensor with options; softmax and its kin
- reductions: sums, extremes, norms, cumulated values, over axes
- shapes: movement of elements, and what shapes are made with
- indexing: gather, scatter, top values, masks
- creation: tensors of a shape, ranges, windows, random numbers
- products: matrix products, einsum, determinants
- convolution: convolutions, of integers too, and their inverses
- pooling: windows and their greatest or mean values
- normalization: layers that divide by what they measure
- recurrent: RNN, GRU, LSTM
- attention: attention and rotary positions
- resizing: Resize, grids, images to columns
- regions: boxes: suppression, RoiAlign
- quantization: integers that stand for floats
- losses: losses, and optimizers' steps
- signal: Fourier transforms
- trees: what operator set ai.onnx.ml has of these
"""

from frontend.onnx.importing.declarations import all_declared, declared
from frontend.onnx.importing.ops import (
    activations,
    attention,
    convolution,
    creation,
    elementwise,
    indexing,
    losses,
    normalization,
    pooling,
    products,
    quantization,
    recurrent,
    reductions,
    regions,
    resizing,
    shapes,
    signal,
    trees,
)

__all__ = [
    "activations", "all_declared", "attention", "convolution", "creation", "declared",
    "elementwise", "indexing", "losses", "normalization", "pooling", "products", "quantization",
    "recurrent", "reductions", "regions", "resizing", "shapes", "signal", "trees",
]  # fmt: skip

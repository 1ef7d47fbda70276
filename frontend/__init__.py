"""graphc's frontend: PyTorch's names on a static-graph compiler.

    import frontend as torch
    from frontend import nn

Everything runs eagerly; `frontend.compile` makes native code of the same functions.
"""

# ruff: noqa: F401 (everything imported here is public)

from __future__ import annotations

from frontend import autograd, nn, optim, utils
from frontend import methods as _methods  # first: attaches the methods to Tensor
from frontend.compiler import compile
from frontend.creation import (
    arange,
    as_tensor,
    empty,
    empty_like,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from frontend.dtypes import (
    Size,
    bool,
    device,
    double,
    float,
    float32,
    float64,
    int,
    int32,
    int64,
    long,
)
from frontend.functions import (
    abs,
    add,
    addcdiv,
    addcmul,
    ceil,
    clamp,
    clone,
    cos,
    div,
    erf,
    exp,
    exp2,
    floor,
    floor_divide,
    lerp,
    log,
    log1p,
    log2,
    log10,
    maximum,
    minimum,
    mul,
    nan_to_num,
    neg,
    pow,
    reciprocal,
    relu,
    remainder,
    round,
    rsqrt,
    rsub,
    sigmoid,
    sign,
    sin,
    sqrt,
    square,
    sub,
    tanh,
    trunc,
    where,
)
from frontend.functions_index import (
    gather,
    index_add,
    index_select,
    masked_fill,
    masked_select,
    nonzero,
    scatter,
    scatter_add,
    take_along_dim,
    tril,
    triu,
)
from frontend.functions_logic import (
    allclose,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    eq,
    equal,
    ge,
    gt,
    isclose,
    isfinite,
    isinf,
    isnan,
    le,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    ne,
)
from frontend.functions_matrix import addmm, baddbmm, bmm, dot, matmul, mm, mv, outer
from frontend.functions_reduce import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    count_nonzero,
    log_softmax,
    logsumexp,
    max,
    mean,
    min,
    norm,
    prod,
    softmax,
    std,
    sum,
    var,
)
from frontend.functions_shape import (
    broadcast_tensors,
    broadcast_to,
    cat,
    chunk,
    concat,
    concatenate,
    flatten,
    flip,
    movedim,
    narrow,
    permute,
    ravel,
    repeat_interleave,
    reshape,
    roll,
    split,
    squeeze,
    stack,
    t,
    tile,
    transpose,
    unbind,
    unflatten,
    unsqueeze,
)
from frontend.promotion import can_cast, promote_types, result_type
from frontend.random import (
    Generator,
    bernoulli,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    normal,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
    seed,
    set_rng_state,
)
from frontend.serialization import load, save
from frontend.state import (
    enable_grad,
    get_default_dtype,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_default_dtype,
    set_grad_enabled,
)
from frontend.tensor import Tensor
from frontend.tracer import tap, trace
from graphc.ir.types import DType as dtype

clip, subtract, multiply, divide, true_divide = clamp, sub, mul, div, div
negative, absolute, swapaxes = neg, abs, transpose


def is_tensor(obj: object) -> bool:  # type: ignore[valid-type]
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:  # type: ignore[valid-type]
    """How many elements a tensor has."""
    return input.numel()


def is_floating_point(input: Tensor) -> bool:  # type: ignore[valid-type]
    """Whether a tensor's dtype is a float."""
    return input.is_floating_point()


del _methods

"""Derivatives of functions as functions: Jacobian, Hessian, and products with vectors.

`inputs` is a tensor or a tuple of tensors; results are nested accordingly. With `create_graph` they
can be differentiated again; with `strict` an output that does not depend on an input is an error,
where otherwise its derivative is zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from frontend.autograd import grad
from frontend.engine.tensors.batch_mode import over_rows
from frontend.engine.tensors.state import enable_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import ones_like, zeros_like
from frontend.functions.ranges import eye
from frontend.functions.shape import cat, reshape

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def jacobian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """d func / d inputs: of shape [*output, *input] for one output and one input, else a tuple per
    output of a tuple per input. One reverse sweep per element of the outputs."""
    if strategy != "reverse-mode":
        raise NotImplementedError("jacobian: strategy='forward-mode' is not supported")
    operands, single = _operands(inputs, "jacobian", create_graph)
    with enable_grad():
        outputs, one = _results(func(*operands), "jacobian")
        blocks = tuple(rows(y, operands, create_graph, strict) for y in outputs)
    shown = tuple(r[0] if single else r for r in blocks)
    return shown[0] if one else shown


AT_ONCE = 1 << 25
"""How many elements of gradients of rows a sweep over a batch of them has, about: 128 MB of f32."""


def rows(
    output: Tensor, operands: Sequence[Tensor], create_graph: bool, strict: bool,
    chunk_size: int | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """d output / d operand for each operand: [*output, *operand], a row per element: one sweep for
    `chunk_size` of them, or as many as memory allows."""
    shape, count = tuple(output.shape), output.numel()
    if not count:
        return tuple(x.new_zeros(*shape, *x.shape) for x in operands)
    if output.is_complex() and output.requires_grad:
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {output.dtype}"
        )
    units = reshape(eye(count, dtype=output.dtype), count, *shape)
    size = chunk_size or max(1, AT_ONCE // (count + sum(x.numel() for x in operands)))
    parts = over_rows(
        lambda unit: _gradients(output, operands, [unit], create_graph, strict), [units], size
    )
    return tuple(reshape(cat(part), *shape, *x.shape) for part, x in zip(parts, operands))


def hessian(
    func: Callable[..., Any], inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """The second derivative of a function with one scalar result: [*input, *input], or a tuple of
    tuples for several inputs. Raises RuntimeError for a result that is no scalar."""
    single = isinstance(inputs, Tensor)

    def gradient(*operands: Tensor) -> Any:
        result = func(*operands)
        if not isinstance(result, Tensor):
            raise TypeError("hessian: the function has to return a single Tensor")
        _scalar(result, "hessian")
        gradients = jacobian(func, operands if not single else operands[0], create_graph=True,
                         strict=strict)  # fmt: skip
        return tuple(
            reshape(g, *x.shape) for g, x in zip((gradients,) if single else gradients, operands)
        )

    points = inputs if single else tuple(inputs)
    blocks = jacobian(gradient, points, create_graph=create_graph, strict=strict,
                    strategy=outer_jacobian_strategy)  # fmt: skip
    return blocks[0] if single else blocks


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """(func(inputs), v · Jacobian). `v` has the shape of the result; 1 for a scalar by default."""
    operands, single = _operands(inputs, "vjp", create_graph)
    with enable_grad():
        outputs, one = _results(func(*operands), "vjp")
        weights = _weights(outputs, v, "vjp")
        products = _gradients(outputs, operands, weights, create_graph, strict)
    shown = _detached(outputs, create_graph)
    return (shown[0] if one else shown), (products[0] if single else products)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """(func(inputs), Jacobian · v), by differentiating the vector-Jacobian product."""
    operands, _ = _operands(inputs, "jvp", create_graph)
    vectors = _weights(operands, v, "jvp")
    with enable_grad():
        outputs, one = _results(func(*operands), "jvp")
        dummies = tuple(zeros_like(y).requires_grad_() for y in outputs)
        pulled = _gradients(outputs, operands, dummies, True, strict)
        products = _gradients(pulled, dummies, vectors, create_graph, strict)
    shown = _detached(outputs, create_graph)
    return (shown[0] if one else shown), (products[0] if one else products)


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """(func(inputs), v · Hessian) of a function with one scalar result."""
    operands, single = _operands(inputs, "vhp", create_graph)
    vectors = _weights(operands, v, "vhp")
    with enable_grad():
        outputs, _ = _results(func(*operands), "vhp")
        _scalar(outputs[0], "vhp")
        first = _gradients(outputs, operands, None, True, strict)
        products = _gradients(first, operands, vectors, create_graph, strict)
    return _detached(outputs, create_graph)[0], (products[0] if single else products)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False,
    strict: bool = False,
) -> Any:  # fmt: skip
    """(func(inputs), Hessian · v): the Hessian is symmetric, so this is `vhp`."""
    return vhp(func, inputs, v, create_graph, strict)


# -- parts ---------------------------------------------------------------------------------------


def _operands(inputs: Any, name: str, create_graph: bool) -> tuple[tuple[Tensor, ...], bool]:
    """The inputs as fresh tensors that require grad; whether there was a single one."""
    single = isinstance(inputs, Tensor)
    tensors = (inputs,) if single else tuple(inputs)
    for position, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"The inputs given to {name} must be either a Tensor or a tuple of Tensors but the "
                f"value at index {position} has type {type(x)}."
            )
    if create_graph:
        with enable_grad():
            fresh = [x.view_as(x) if x.requires_grad else x.detach() for x in tensors]
    else:
        fresh = [x.detach() for x in tensors]
    return tuple(x if x.requires_grad else x.requires_grad_() for x in fresh), single


def _results(result: Any, name: str) -> tuple[tuple[Tensor, ...], bool]:
    one = isinstance(result, Tensor)
    listed = (result,) if one else tuple(result)
    for position, y in enumerate(listed):
        if not isinstance(y, Tensor):
            raise TypeError(
                f"The outputs of the user-provided function given to {name} must be either a "
                f"Tensor or a tuple of Tensors but the value at index {position} has type {type(y)}"
            )
    return listed, one


def _scalar(output: Tensor, name: str) -> None:
    if output.numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element"
        )


def _weights(of: Sequence[Tensor], v: Any, name: str) -> tuple[Tensor, ...]:
    if v is None:
        if len(of) != 1 or of[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None in {name} where it weighs a single scalar"
            )
        return (ones_like(of[0]),)
    weights = (v,) if isinstance(v, Tensor) else tuple(v)
    if len(weights) != len(of):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(of)} but got {len(weights)}."
        )
    for position, (weight, x) in enumerate(zip(weights, of)):
        if weight.shape != x.shape:
            raise RuntimeError(
                f"Entry {position} of v has invalid size: should be {x.shape} but got "
                f"{weight.shape}."
            )
    return weights


def _gradients(
    outputs: Any, operands: Sequence[Tensor], weights: Any, create_graph: bool, strict: bool
) -> tuple[Tensor, ...]:
    listed = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    vectors = [None] * len(listed) if weights is None else list(weights)
    taken = [(y, w) for y, w in zip(listed, vectors) if y.requires_grad]
    gradients: Sequence[Any] = [None] * len(operands)
    if taken:
        chosen, seeds = [y for y, _ in taken], [w for _, w in taken]
        gradients = grad(
            chosen, operands, None if weights is None else seeds, retain_graph=True,
            create_graph=create_graph, allow_unused=True,
        )  # fmt: skip
    for position, gradient in enumerate(gradients):
        if gradient is None and strict:
            raise RuntimeError(
                f"The output of the user-provided function is independent of input {position}. "
                "This is not allowed in strict mode."
            )
    return tuple(zeros_like(x) if g is None else g for g, x in zip(gradients, operands))


def _detached(outputs: tuple[Tensor, ...], create_graph: bool) -> tuple[Tensor, ...]:
    return outputs if create_graph else tuple(y.detach() for y in outputs)

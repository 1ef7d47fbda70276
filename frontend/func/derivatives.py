"""Derivatives of functions as functions.

in : a function of tensors (in nested tuples, lists, dicts), with nested tensors as result
out: its gradient, vector products, Jacobian or Hessian as a function of the same arguments

Each derivative is one reverse sweep over what the function recorded; a product with the Jacobian
from the right differentiates a sweep once more. They nest, and what surrounds them may
differentiate them again: a sweep is recorded where a leaf from outside stands behind the results,
and only there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from frontend.autograd.functional import AT_ONCE, rows
from frontend.engine.eager.gradients.backward import leaves_behind
from frontend.engine.eager.gradients.grad import grad as gradients_of
from frontend.engine.tensors import tree
from frontend.engine.tensors.batch_mode import over_rows
from frontend.engine.tensors.state import enable_grad, is_grad_enabled
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import zeros_like
from frontend.functions.layout import movedim
from frontend.functions.ranges import eye
from frontend.functions.shape import cat, reshape

Argnums = int | tuple[int, ...]


class _Recorded:
    """A function that ran once on fresh tensors: what it gave, and gradients of that."""

    def __init__(self, primals: Any, run: Callable[[Any], Any], has_aux: bool, name: str):
        """`run(primals)` is the function; gradients are taken by the tensors in `primals`."""
        leaves: list[Tensor] = []
        structure = tree.flatten(primals, leaves)
        self.recording = is_grad_enabled()
        with enable_grad():
            self.operands = [x.view_as(x) if x.requires_grad else _leaf(x) for x in leaves]
            result = run(tree.build(structure, iter(self.operands)))
        self.structure = structure
        self.own = {id(x) for x in self.operands}
        self.aux = None
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise RuntimeError(
                    f"{name}(f)(*args): output of function f should be a tuple: (output, aux) if "
                    "has_aux is True"
                )
            result, self.aux = result
        self.result = result
        self.outputs: list[Tensor] = []
        self.result_structure = tree.flatten(result, self.outputs)

    def is_seen(self, value: Tensor) -> bool:
        """Whether somebody outside can differentiate this value."""
        return self.recording and value.requires_grad and bool(leaves_behind(value) - self.own)

    def shown(self, value: Any) -> Any:
        """The value as it leaves: off the tape, where only this run could differentiate it."""
        tensors: list[Tensor] = []
        structure = tree.flatten(value, tensors)
        kept = [x if self.is_seen(x) else x.detach() for x in tensors]
        return tree.build(structure, iter(kept))

    def pulled(self, weights: Sequence[Tensor], again: bool = False) -> list[Tensor]:
        """weights · Jacobian, by operand. Recorded with `again`, and where somebody can ask."""
        pairs = [(y, w) for y, w in zip(self.outputs, weights) if y.requires_grad]
        again = again or any(self.is_seen(y) or self.is_seen(w) for y, w in pairs)
        return _gradients(pairs, self.operands, again)

    def like_primals(self, values: Sequence[Tensor]) -> Any:
        return tree.build(self.structure, iter(values))

    def like_result(self, values: Sequence[Tensor]) -> Any:
        return tree.build(self.result_structure, iter(values))


def _leaf(x: Tensor) -> Tensor:
    return x.detach().requires_grad_()


def _gradients(
    pairs: Sequence[tuple[Tensor, Tensor]], operands: Sequence[Tensor], create_graph: bool
) -> list[Tensor]:
    """The sum over pairs (output, weight) of weight · d output / d operand; zeros by default."""
    if not pairs or not operands:
        return [zeros_like(x) for x in operands]
    outputs, weights = zip(*pairs)
    with enable_grad():
        gradients = gradients_of(
            list(outputs), list(operands), list(weights), retain_graph=True,
            create_graph=create_graph, allow_unused=True,
        )  # fmt: skip
    return [zeros_like(x) if g is None else g for g, x in zip(gradients, operands)]


def _chosen(
    argnums: Argnums, args: tuple[Any, ...]
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """The arguments that are differentiated by, and all arguments with others in their place.
    Raises RuntimeError for a place that is not there."""
    listed = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for place in listed:
        if not -len(args) <= place < len(args):
            raise RuntimeError(f"Got argnum={place}, but only {len(args)} positional inputs")
    places = [place % len(args) for place in listed]
    if len(set(places)) != len(places):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")

    def replaced(values: Any) -> tuple[Any, ...]:
        values = (values,) if isinstance(argnums, int) else values
        replacement = dict(zip(places, values))
        return tuple(replacement.get(i, arg) for i, arg in enumerate(args))

    chosen = tuple(args[place] for place in places)
    return (chosen[0] if isinstance(argnums, int) else chosen), replaced


# -- gradients -----------------------------------------------------------------------------------


def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives (gradient, value) of `func`, whose result is a scalar, by the arguments
    `argnums`. With `has_aux` the result is (scalar, anything), and so is the value. Raises
    RuntimeError for any other result."""

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        chosen, replaced = _chosen(argnums, args)
        run = _Recorded(chosen, lambda x: func(*replaced(x), **kwargs), has_aux, "grad_and_value")
        output = run.result
        if not isinstance(output, Tensor):
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a tensor, got "
                f"{type(output)}"
            )
        if output.dim() != 0:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor "
                f"with {output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        gradient = run.like_primals(run.pulled([output.new_ones(())]))
        value = run.shown(output)
        return gradient, ((value, run.shown(run.aux)) if has_aux else value)

    return wrapper


def grad(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The gradient of `grad_and_value` alone; with `has_aux` (gradient, aux)."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


# -- products with the Jacobian ------------------------------------------------------------------


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), a function from cotangents to cotangents · Jacobian), and aux. Cotangents
    are nested as the result, products as the tuple of primals."""
    run = _Recorded(primals, lambda x: func(*x), has_aux, "vjp")
    if not run.outputs:
        raise RuntimeError(
            f"vjp(f, *primals): Expected f to be a function that has non-empty output (got "
            f"output = {run.result!r})"
        )

    def vjp_fn(*cotangents: Any, **options: Any) -> Any:
        inputs = cotangents if len(cotangents) != 1 else cotangents[0]
        weights: list[Tensor] = []
        if tree.flatten(inputs, weights) != run.result_structure:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                "outputs to the function."
            )
        return run.like_primals(run.pulled(weights))

    result = run.shown(run.result)
    return (result, vjp_fn, run.shown(run.aux)) if has_aux else (result, vjp_fn)


class _Pushed:
    """A recorded function whose sweep is recorded too: Jacobian · tangents, as often as asked."""

    def __init__(self, run: _Recorded):
        self.run = run
        self.weights = [zeros_like(y).requires_grad_() for y in run.outputs]
        run.own |= {id(weight) for weight in self.weights}
        self.products = run.pulled(self.weights, again=True)

    def along(self, tangents: Sequence[Tensor]) -> list[Tensor]:
        pairs = [(p, t) for p, t in zip(self.products, tangents) if p.requires_grad]
        again = any(self.run.is_seen(x) for pair in pairs for x in pair)
        return _gradients(pairs, self.weights, again)


def _tangents(run: _Recorded, tangents: Any, name: str) -> list[Tensor]:
    leaves: list[Tensor] = []
    if tree.flatten(tangents, leaves) != run.structure:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure"
        )
    return leaves


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False,
    has_aux: bool = False,
) -> Any:  # fmt: skip
    """(func(*primals), Jacobian · tangents), and aux. Both are tuples."""
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid "
            f"to call f(*primals); got {type(primals).__name__}"
        )
    run = _Recorded(primals, lambda x: func(*x), has_aux, "jvp")
    along = _tangents(run, tangents, "jvp(f, primals, tangents)")
    product = run.like_result(_Pushed(run).along(along))
    result = run.shown(run.result)
    return (result, product, run.shown(run.aux)) if has_aux else (result, product)


def linearize(func: Callable[..., Any], *primals: Any) -> Any:
    """(func(*primals), a function from tangents to Jacobian · tangents): `func` runs once."""
    run = _Recorded(primals, lambda x: func(*x), False, "linearize")
    pushed = _Pushed(run)

    def jvp_fn(*tangents: Any) -> Any:
        return run.like_result(pushed.along(_tangents(run, tangents, "linearize")))

    return run.shown(run.result), jvp_fn


# -- Jacobians -----------------------------------------------------------------------------------


def jacrev(
    func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False,
    chunk_size: int | None = None, _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function that gives d func / d argument, of shape [*output, *input], nested as the result
    and in it as the arguments: a reverse sweep over a batch of `chunk_size` elements of the result
    (None: as many as memory allows), one element at a time where they cannot go together."""
    _check_chunk(chunk_size)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        chosen, replaced = _chosen(argnums, args)
        run = _Recorded(chosen, lambda x: func(*replaced(x), **kwargs), has_aux, "jacrev")
        with enable_grad():  # the elements of an output are taken from it
            blocks = [
                run.like_primals(rows(y, run.operands, run.is_seen(y), False, chunk_size))
                for y in run.outputs
            ]
        jacobian = _placed(run.result_structure, blocks)
        return (jacobian, run.shown(run.aux)) if has_aux else jacobian

    return wrapper


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *,
    randomness: str = "error", chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """As `jacrev`, by one product per element of the arguments: for functions with few of them."""
    _check_chunk(chunk_size)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        chosen, replaced = _chosen(argnums, args)
        run = _Recorded(chosen, lambda x: func(*replaced(x), **kwargs), has_aux, "jacfwd")
        pushed = _Pushed(run)
        columns = [_columns(pushed, place, chunk_size) for place in range(len(run.operands))]
        blocks = [
            run.like_primals([column[place] for column in columns])
            for place in range(len(run.outputs))
        ]
        jacobian = _placed(run.result_structure, blocks)
        return (jacobian, run.shown(run.aux)) if has_aux else jacobian

    return wrapper


def _check_chunk(chunk_size: int | None) -> None:
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacobian: `chunk_size` should be greater than 0.")


def _columns(pushed: _Pushed, place: int, chunk_size: int | None) -> list[Tensor]:
    """By output, d output / d operand number `place`: [*output, *operand]."""
    operands = pushed.run.operands
    operand = operands[place]
    count = operand.numel()
    if not count:
        return [y.new_zeros(*y.shape, *operand.shape) for y in pushed.run.outputs]

    def column(unit: Tensor) -> list[Tensor]:
        tangents = [zeros_like(x) for x in operands]
        tangents[place] = unit
        return pushed.along(tangents)

    units = reshape(eye(count, dtype=operand.dtype), count, *operand.shape)
    size = chunk_size or max(1, AT_ONCE // sum(x.numel() for x in (*operands, *pushed.weights)))
    parts = over_rows(column, [units], size)
    return [
        reshape(movedim(cat(part), 0, -1), *y.shape, *operand.shape)
        for part, y in zip(parts, pushed.run.outputs)
    ]


def _placed(structure: Any, blocks: Sequence[Any]) -> Any:
    """`blocks`, which may be nested themselves, in the places of tensors."""
    return tree.build(structure, iter(blocks))


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that gives the second derivative of `func`: `jacfwd` of `jacrev`."""
    return jacfwd(jacrev(func, argnums), argnums)

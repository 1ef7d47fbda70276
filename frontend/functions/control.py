"""Control flow that a trace keeps: branches and loops that depend on data.

Eager they are Python's `if`, `while` and `for`. Compiled they are one node of the graph, whose body
is traced once, and native branches and loops. `cond` and `scan` have gradients; `while_loop` has
none when compiled, since what backward would need of it has no known size.

A body may read tensors from around it, and change them in place (the state of a generator, a
running mean): what it changes is carried from one run to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.gradients.non_differentiable import mark_non_differentiable
from frontend.engine.tensors import tree
from frontend.engine.tensors.fake_mode import types_alone
from frontend.engine.tensors.state import STATE, no_grad
from frontend.engine.tensors.symbolic_numbers import whole
from frontend.engine.tensors.tensor import Tensor, without_data
from frontend.engine.tracing.bodies import (
    TracedBody,
    captured_by,
    changed_by,
    error,
    traced_steps,
    unchanging,
    unshared,
)
from frontend.engine.tracing.leaving import leaving
from frontend.engine.tracing.session import Session
from frontend.functions.declarations import public
from frontend.functions.shape import movedim, stack
from graphc.errors import DTypeError, GradientError, ShapeError, TraceError
from graphc.ir.nodes import Graph
from graphc.ir.types import DType, TensorType
from graphc.ops import control


def _applied(op: Any, operands: tuple[Tensor, ...], attributes: dict[str, Any]) -> Any:
    """The op, also where it has no gradient: backward through its results then raises."""
    try:
        return CONTEXT.apply(op, operands, attributes)
    except GradientError:
        with no_grad():
            results = CONTEXT.apply(op, operands, attributes)
    for result in results:
        mark_non_differentiable(op.name, tuple(x for x in operands if x._requires_grad), result)
    return results


def _assign(changed: Sequence[Tensor], values: Sequence[Tensor], *bodies: TracedBody) -> None:
    """Give tensors from around what the bodies left in them, with its gradient where that was
    changed too."""
    for tensor, value in zip(changed, values):
        if any(id(tensor) in body.region.derived_changes for body in bodies):
            tensor._assign(value)
            continue
        with no_grad():
            tensor._assign(value)


def _same_types(
    op: str, what: str, before: Sequence[TensorType], after: Sequence[TensorType]
) -> None:
    """Raise where what a loop carries, or what two branches return, differs."""
    if len(before) != len(after):
        raise error(ShapeError, f"{op}: {what}: {len(before)} tensors and {len(after)}")
    for position, (one, other) in enumerate(zip(before, after)):
        if one != other:
            kind = ShapeError if one.shape != other.shape else DTypeError
            raise error(kind, f"{op}: {what} {position} is {one} and {other}")


def _types(leaves: Sequence[Tensor]) -> list[TensorType]:
    return [leaf.tensor_type for leaf in leaves]


def _check_tensors(op: str, leaves: Sequence[Any], structure: Any) -> None:
    if "static" in _kinds(structure):
        raise TypeError(f"{op}(): every leaf must be a Tensor")


def _kinds(structure: Any) -> set[str]:
    kinds = {structure[0]}
    if structure[0] in ("tuple", "list", "dict"):
        for item in structure[-1]:
            kinds |= _kinds(item)
    return kinds


# -- cond ----------------------------------------------------------------------------------------


@public()
def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()
) -> Any:
    """`true_fn(*operands)` where `pred` holds, else `false_fn(*operands)`.

    `pred`: a bool, or a tensor of one element. Both functions return tensors (or nested tuples,
    lists, dicts of them) of the same shapes and dtypes. Only the chosen one runs. Raises TypeError
    for an operand that is no tensor, ShapeError or DTypeError where the results differ.
    """
    operands = tuple(operands)
    leaves: list[Tensor] = []
    structure = tree.flatten(operands, leaves)
    _check_tensors("cond", leaves, structure)
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"cond(): pred must have one element, got {pred.tensor_type}")
    if isinstance(pred, Tensor) and types_alone(pred):
        return _typed_cond(true_fn, false_fn, operands, leaves)
    if STATE.mode is None or not isinstance(pred, Tensor):
        chosen = unchanging(true_fn if bool(pred) else false_fn, leaves)
        return unshared(chosen(*operands), leaves)
    types = _types(leaves)
    then = TracedBody("then", true_fn, types, structure)
    otherwise = TracedBody("otherwise", false_fn, types, structure)
    _same_results(then.structure, otherwise.structure, then.types, otherwise.types)
    changed = changed_by(then, otherwise)
    captured = captured_by(changed, then, otherwise)
    regions = [
        each.graph(
            [*each.inputs, *map(each.region.input_of, (*changed, *captured))],
            [*each.values, *map(each.new_value, changed)],
            changed,
        )
        for each in (then, otherwise)
    ]
    predicate = (pred if pred.dtype is DType.bool else pred != 0).reshape(())
    results = _applied(
        control.cond, (predicate, *leaves, *changed, *captured),
        {"then": regions[0], "otherwise": regions[1]},
    )  # fmt: skip
    _assign(changed, results[len(then.values) :], then, otherwise)
    return tree.build(then.structure, iter(results))


def _typed_cond(
    true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any, leaves: list[Tensor]
) -> Any:
    """`cond` where types alone are computed: those of both sides, which have to be the same."""
    sides: list[tuple[Any, list[TensorType]]] = []
    for function in (true_fn, false_fn):
        results: list[Tensor] = []
        structure = tree.flatten(unchanging(function, leaves)(*operands), results)
        sides.append((structure, _types(results)))
    (structure, types), (other, other_types) = sides
    _same_results(structure, other, types, other_types)
    return tree.build(structure, map(without_data, types))


def _same_results(
    then: Any, otherwise: Any, types: list[TensorType], other_types: list[TensorType]
) -> None:
    if then != otherwise:
        raise error(TraceError, "cond: the two functions return different structures")
    _same_types("cond", "result", types, other_types)


# -- while_loop ----------------------------------------------------------------------------------


@public()
def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any
) -> tuple[Any, ...]:
    """While `cond_fn(*carried)` holds, `carried = body_fn(*carried)`; the last `carried`, a tuple.

    `cond_fn` returns a bool or a tensor of one element, `body_fn` as many tensors as it takes, of
    the same shapes and dtypes. Raises TypeError, ShapeError or DTypeError where they do not.
    Compiled, it has no gradient: backward through it raises.
    """
    carried = tuple(carried_inputs)
    leaves: list[Tensor] = []
    structure = tree.flatten(carried, leaves)
    _check_tensors("while_loop", leaves, structure)
    if types_alone(*leaves):
        _tested(unchanging(cond_fn, leaves))(*carried)
        _next_carry(unchanging(body_fn, leaves)(*carried), carried)
        return tuple(tree.build(structure, map(without_data, _types(leaves))))
    if STATE.mode is None:
        return _eager_while(cond_fn, body_fn, carried, leaves)
    return _traced_while(cond_fn, body_fn, leaves, structure)


def _eager_while(
    cond_fn: Any, body_fn: Any, carried: tuple[Any, ...], leaves: list[Tensor]
) -> tuple[Any, ...]:
    now = leaves
    while bool(unchanging(cond_fn, now)(*carried)):
        carried = _next_carry(unchanging(body_fn, now)(*carried), carried)
        tree.flatten(carried, now := [])
    return tuple(unshared(carried, leaves))


def _next_carry(result: Any, carried: tuple[Any, ...]) -> tuple[Any, ...]:
    result = tuple(result) if isinstance(result, tuple | list) else (result,)
    before: list[Tensor] = []
    after: list[Tensor] = []
    same = tree.flatten(carried, before) == tree.flatten(result, after)
    if not same:
        raise error(TraceError, "while_loop: body_fn returns another structure than it takes")
    _same_types("while_loop", "carried value", _types(before), _types(after))
    return result


def _traced_while(
    cond_fn: Any, body_fn: Any, leaves: list[Tensor], structure: Any
) -> tuple[Any, ...]:
    types = _types(leaves)
    expected = tree.build(structure, iter(leaves))
    condition = traced_steps("condition", _tested(cond_fn), types, structure)
    body = traced_steps("body", lambda *xs: _next_carry(body_fn(*xs), expected), types, structure)
    if condition.region.changed_tensors:
        raise error(
            TraceError, "while_loop: cond_fn changes a tensor in place",
            "change it in body_fn, or carry it",
        )  # fmt: skip
    changed = changed_by(body)
    captured = captured_by(changed, condition, body)
    regions = [
        each.graph(
            [*each.inputs, *map(each.region.input_of, (*changed, *captured))], outputs, changed
        )
        for each, outputs in (
            (condition, condition.values),
            (body, [*body.values, *map(body.new_value, changed)]),
        )
    ]
    operands = (*leaves, *changed, *captured)
    recorded = STATE.grad_enabled and any(x._requires_grad for x in operands)
    results = CONTEXT.apply(
        control.while_loop, operands,
        {"carry": len(leaves) + len(changed), "condition": regions[0], "body": regions[1]},
    )  # fmt: skip
    for result in results if recorded else ():
        mark_non_differentiable(
            "while_loop", tuple(x for x in operands if x._requires_grad), result
        )
    _assign(changed, results[len(leaves) :], body)
    return tuple(tree.build(structure, iter(results)))


def _tested(cond_fn: Callable[..., Any]) -> Callable[..., Tensor]:
    """`cond_fn` with a bool[] for a result."""

    def tested(*carried: Any) -> Tensor:
        flag = cond_fn(*carried)
        if not isinstance(flag, Tensor):
            return CONTEXT.constant(bool(flag))
        if flag.numel() != 1:
            raise error(
                ShapeError, f"while_loop: cond_fn returns {flag.tensor_type}, not one element"
            )
        return (flag if flag.dtype is DType.bool else flag != 0).reshape(())

    return tested


# -- scan ----------------------------------------------------------------------------------------


@public()
def scan(
    combine_fn: Callable[..., Any], init: Any, xs: Any = None, *, dim: int = 0,
    reverse: bool = False, length: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """For each slice x of `xs` along `dim` in order (from the last with `reverse`)
    `carry, y = combine_fn(carry, x)`, beginning with `init`; the last carry, and the ys stacked
    along a new dimension `dim` (the first one for a y of fewer dimensions), each at the place of
    its x. A negative `dim` counts from the last dimension of the first of the `xs`.

    `init`, `xs` and what `combine_fn` returns may be nested tuples, lists and dicts of tensors, y
    also None. The carry keeps its shapes and dtypes. Without `xs`, `length` says how many steps
    there are, and x is None. Raises TypeError, ShapeError or DTypeError where these do not fit,
    ValueError for no step at all.
    """
    carry: list[Tensor] = []
    sequences: list[Tensor] = []
    carry_structure = tree.flatten(init, carry)
    _check_tensors("scan", carry, carry_structure)
    structure = tree.flatten(xs, sequences)
    if xs is not None:
        _check_tensors("scan", sequences, structure)
    dim = dim + sequences[0].dim() if dim < 0 and sequences else dim
    steps = _steps(sequences, dim, length)
    if dim != 0:
        sequences = [movedim(x, dim, 0) for x in sequences]
    step = _checked_step(combine_fn, carry_structure, _types(carry))
    if types_alone(*carry, *sequences):
        final, ys = _typed_scan(step, init, sequences, structure, steps)
    elif STATE.mode is None:
        final, ys = _eager_scan(step, init, sequences, structure, steps, reverse)
    else:
        final, ys = _traced_scan(step, carry, carry_structure, sequences, structure, steps, reverse)
    return final, ys if dim == 0 or not sequences else _turned(ys, dim)


def _typed_scan(
    step: Any, carry: Any, sequences: list[Tensor], structure: Any, steps: int
) -> tuple[Any, Any]:
    """`scan` where types alone are computed: those of one step."""
    taken = [without_data(_of_one_step(x.tensor_type)) for x in sequences]
    carry, y = unchanging(step, taken)(carry, tree.build(structure, iter(taken)))
    returned: list[Tensor] = []
    final: list[Tensor] = []
    shape = tree.flatten(y, returned)
    carried = tree.flatten(carry, final)
    stacked = [x.tensor_type.with_shape((steps, *x.tensor_type.shape)) for x in returned]
    ended = tree.build(carried, map(without_data, _types(final)))
    return ended, tree.build(shape, map(without_data, stacked))


def _of_one_step(type: TensorType) -> TensorType:
    return type.with_shape(type.shape[1:])


def _turned(ys: Any, dim: int) -> Any:
    """ys with their first dimension at `dim`, where they have that."""
    leaves: list[Tensor] = []
    structure = tree.flatten(ys, leaves)
    moved = [movedim(y, 0, dim) if dim < y.dim() else y for y in leaves]
    return tree.build(structure, iter(moved))


def _steps(sequences: list[Tensor], dim: int, length: int | None) -> Any:
    """How many steps there are."""
    for x in sequences:
        if not 0 <= dim < x.dim():
            raise error(ShapeError, f"scan: {x.tensor_type} has no dimension {dim}")
    lengths = [x.shape[dim] for x in sequences] + ([] if length is None else [length])
    if not lengths or any(each != lengths[0] for each in lengths):  # no set: sizes stay open
        listed = ", ".join(map(str, sorted(set(lengths)))) or "none given"
        raise error(ShapeError, f"scan: the number of steps is not one: {listed}")
    steps = lengths[0]
    if steps < 1:
        raise ValueError("scan(): there must be at least one step")
    return whole(steps)


def _checked_step(function: Callable[..., Any], structure: Any, types: list[TensorType]) -> Any:
    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        result = function(carry, x)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError("scan(): combine_fn must return (carry, y)")
        leaves: list[Tensor] = []
        if tree.flatten(result[0], leaves) != structure:
            raise error(TraceError, "scan: the carry that combine_fn returns has another "
                         "structure than init")  # fmt: skip
        _same_types("scan", "carry", types, _types(leaves))
        return result

    return step


def _eager_scan(
    step: Any, carry: Any, sequences: list[Tensor], structure: Any, steps: int, reverse: bool
) -> tuple[Any, Any]:
    slices: list[Any] = [x.unbind(0) for x in sequences]
    returned: list[list[Tensor]] = [[] for _ in range(steps)]
    shape: Any = None
    initial: list[Tensor] = []
    tree.flatten(carry, initial)
    for t in range(steps - 1, -1, -1) if reverse else range(steps):
        taken: list[Tensor] = [each[t] for each in slices]
        x = tree.build(structure, iter(taken))
        tree.flatten(carry, taken)
        carry, y = unchanging(step, taken)(carry, x)
        shape = tree.flatten(y, returned[t])
    stacked = [stack(list(column)) for column in zip(*returned)]
    carry = unshared(carry, initial)
    return carry, tree.build(shape, iter(stacked))


def _traced_scan(
    step: Any, carry: list[Tensor], carry_structure: Any, sequences: list[Tensor],
    structure: Any, steps: int, reverse: bool,
) -> tuple[Any, Any]:  # fmt: skip
    slices = [_of_one_step(x.tensor_type) for x in sequences]
    expected = ("tuple", tuple, (carry_structure, structure))
    body = traced_steps("body", step, [*_types(carry), *slices], expected)
    changed = changed_by(body)
    captured = captured_by(changed, body)
    count = len(carry)
    inputs = [
        *body.inputs[:count], *map(body.region.input_of, changed), *body.inputs[count:],
        *map(body.region.input_of, captured),
    ]  # fmt: skip
    outputs = [
        *body.values[:count], *map(body.new_value, changed), *body.values[count:]
    ]  # fmt: skip
    results = _applied(
        control.scan, (*carry, *changed, *sequences, *captured),
        {
            "carry": count + len(changed), "sequences": len(sequences), "length": steps,
            "reverse": reverse, "body": body.graph(inputs, outputs, changed),
        },
    )  # fmt: skip
    _assign(changed, results[count : count + len(changed)], body)
    leaves = iter((*results[:count], *results[count + len(changed) :]))
    outcome: tuple[Any, Any] = tree.build(body.structure, leaves)
    return outcome


def step_graph(step: Any, carry: tuple[Tensor, ...], xs: Tensor) -> tuple[Graph, list[Tensor]]:
    """The graph of a step of `scan` over axis 0 of one sequence, traced by itself, and the tensors
    from around that it takes."""
    types = [*_types(carry), _of_one_step(xs.tensor_type)]
    session = Session("step")
    with leaving(session), session:
        body = TracedBody("body", step, types, tree.flatten((carry, xs), []))
        around = captured_by([], body)
        inputs = [*body.inputs, *map(body.region.input_of, around)]
        return body.graph(inputs, body.values, []), around

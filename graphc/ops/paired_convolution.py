"""Convolution and its two adjoints of f16 or bf16, summed in f32, two products at a time.

A pair is two neighbouring channels that are summed over, at one tap; of a weight's gradient two
neighbouring positions along the last axis. So each op is its sibling in `contract.py` over half as
many channels (positions), whose elements are pairs: a `Pairing` says which. k is that one's, with
the place in a pair as its last coordinate, the odd element first.

Where there is an odd number to pair, the operands are widened, and the sibling is what is computed:
`of_halves` decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphc.errors import ShapeError
from graphc.ir.handle import cast_to
from graphc.ir.types import DType, Shape, TensorType
from graphc.ir.undecided import answers_now
from graphc.ops.contract import conv, conv_input_grad, conv_weight_grad, geometry_of
from graphc.ops.elementwise import cast
from graphc.ops.kinds.contract import Contract, PairAxis, Pairing, Space
from graphc.ops.kinds.movement import Case
from graphc.ops.kinds.op import FLOATS, SampleDrawer, Types
from graphc.records import replace

Index = tuple[Any, ...]


# -- what is paired ------------------------------------------------------------------------------


def _over_channels(sibling: Contract, types: Types, axes: tuple[int, int], attributes: Any
                   ) -> Pairing:  # fmt: skip
    """Neighbours along one axis of each operand."""
    halved = tuple(
        type.with_shape(tuple(n // 2 if a == axis else n for a, n in enumerate(type.shape)))
        for type, axis in zip(types, axes, strict=True)
    )
    left, right = (PairAxis(axis, 2, 0, 1) for axis in axes)
    return Pairing(sibling, halved, attributes, (left, right))


def _over_positions(types: Types, attributes: dict[str, Any]) -> Pairing:
    """Neighbouring positions along the last axis, and the elements that a tap has there, which lie
    a stride apart. An element's place is counted from a stride ahead of it, so that none is
    negative where one of the two exists."""
    x, g = types
    last, step = len(x.shape) - 1, attributes["stride"][-1]
    padding = attributes["padding"]
    changed = {
        **attributes,
        "stride": (*attributes["stride"][:-1], 2 * step),
        "padding": (*padding[:-1], padding[-1] - step),
    }
    halved = (
        x.with_shape((*x.shape[:-1], x.shape[-1] + step)),
        g.with_shape((*g.shape[:-1], g.shape[-1] // 2)),
    )
    axes = PairAxis(last, 1, -step, 0), PairAxis(last, 2, 0, 1)
    return Pairing(conv_weight_grad, halved, changed, axes)


# -- the ops -------------------------------------------------------------------------------------


def _member(case: Case, place: Any, pairing: Pairing, types: Types) -> Case:
    """The element at a place (0: the odd one, 1: the even one) of a pair."""
    axis = pairing.axes[case.operand]
    pair = case.index[axis.axis]
    at = pair * axis.step + axis.odd + place * (axis.even - axis.odd)
    extent = types[case.operand].shape[axis.axis]
    guards = tuple(
        (at, 0, extent) if guard[0] is pair else guard for guard in case.guards
    )  # fmt: skip
    return Case(case.operand, (*case.index[: axis.axis], at, *case.index[axis.axis + 1 :]), guards)


def _paired(
    sibling: Contract, pairing: Callable[[Types, dict[str, Any]], Pairing],
    even: Callable[[Types, dict[str, Any]], int], what: str, **rest: Any,
) -> Contract:  # fmt: skip
    """The op of pairs beside `sibling`; `even`: what there is to be an even number of."""

    def shape(types: Types, **attributes: Any) -> Shape:
        result = sibling.shape_rule(types, **attributes)
        odd = even(types, attributes) % 2
        # Of sizes known only at run time it was decided where the graph was made.
        if (isinstance(odd, int) or answers_now() is not None) and odd > 0:
            raise ShapeError(
                f"paired_{sibling.name} of {types[0]} and {types[1]}: an odd number of {what}",
                hint=f"widen the operands, and take {sibling.name}",
            )
        return result

    def space(types: Types, **attributes: Any) -> Space:
        pairs = pairing(types, attributes)
        of_pairs = sibling.space(pairs.types, **pairs.attributes)
        return replace(of_pairs, k=(*of_pairs.k, 2))

    def case(rule: Callable[..., Case]) -> Callable[..., Case]:
        def member(b: Index, other: Index, k: Index, types: Types, **attributes: Any) -> Case:
            pairs = pairing(types, attributes)
            of_pair = rule(b, other, k[:-1], pairs.types, **pairs.attributes)
            return _member(of_pair, k[-1], pairs, types)

        return member

    return Contract(
        f"paired_{sibling.name}", shape, parameters=sibling.parameters, space=space,
        left=case(sibling.left), right=case(sibling.right), out=sibling.out,
        compute=sibling.compute_rule, dtypes=(*FLOATS, DType.f16, DType.bf16),
        phases=sibling.phases, pairs=True, pairing=pairing, **rest,
    )  # fmt: skip


def _channels(types: Types, attributes: dict[str, Any]) -> int:
    """Channels of a group that are summed over, forward."""
    return types[1].shape[1]


def _outputs(types: Types, attributes: dict[str, Any]) -> int:
    """Channels of a group that are summed over in the gradient by the input."""
    groups: int = attributes["groups"]
    return types[1].shape[0] // groups


def _positions(types: Types, attributes: dict[str, Any]) -> int:
    return types[1].shape[-1]


def _conv_vjp(g: Any, out: Any, x: Any, w: Any, **attributes: Any) -> tuple[Any, Any]:
    g = cast_to(g, x.dtype)
    return (
        lambda: cast_to(input_grad_of_halves(g, w, size=x.shape[2:], **attributes), x.dtype),
        lambda: cast_to(weight_grad_of_halves(x, g, kernel=w.shape[2:], **attributes), w.dtype),
    )


def _input_grad_vjp(h: Any, out: Any, g: Any, w: Any, **attributes: Any) -> tuple[Any, Any]:
    h, geometry = cast_to(h, g.dtype), geometry_of(attributes)
    return (
        lambda: cast_to(conv_of_halves(h, w, **geometry), g.dtype),
        lambda: cast_to(weight_grad_of_halves(h, g, kernel=w.shape[2:], **geometry), w.dtype),
    )


def _weight_grad_vjp(h: Any, out: Any, x: Any, g: Any, **attributes: Any) -> tuple[Any, Any]:
    h, geometry = cast_to(h, x.dtype), geometry_of(attributes)
    return (
        lambda: cast_to(input_grad_of_halves(g, h, size=x.shape[2:], **geometry), x.dtype),
        lambda: cast_to(conv_of_halves(x, h, **geometry), g.dtype),
    )


paired_conv = _paired(
    conv, lambda types, attributes: _over_channels(conv, types, (1, 1), attributes), _channels,
    "channels in a group", vjp=_conv_vjp, samples=lambda m: _samples(m, conv),
)  # fmt: skip
paired_conv_input_grad = _paired(
    conv_input_grad,
    lambda types, attributes: _over_channels(conv_input_grad, types, (1, 0), attributes), _outputs,
    "channels in a group", vjp=_input_grad_vjp, samples=lambda m: _samples(m, conv_input_grad),
)  # fmt: skip
paired_conv_weight_grad = _paired(
    conv_weight_grad, _over_positions, _positions, "positions along the last axis",
    vjp=_weight_grad_vjp, samples=lambda m: _samples(m, conv_weight_grad),
)  # fmt: skip


# -- what convolutions of halves are ---------------------------------------------------------------


def _of_halves(
    sibling: Contract, paired: Contract, even: Callable[[Types, dict[str, Any]], int]
) -> Callable[..., Any]:
    def run(x: Any, y: Any, **attributes: Any) -> Any:
        if even((x.tensor_type, y.tensor_type), attributes) % 2 == 0:
            return paired(x, y, **attributes)
        wide = (cast(each, dtype=each.dtype.computes_as) for each in (x, y))
        return sibling(*wide, **attributes)

    run.__name__ = f"{sibling.name}_of_halves"
    run.__doc__ = f"`{sibling.name}` of f16 or bf16, in f32: by pairs where their number is even."
    return run


conv_of_halves = _of_halves(conv, paired_conv, _channels)
input_grad_of_halves = _of_halves(conv_input_grad, paired_conv_input_grad, _outputs)
weight_grad_of_halves = _of_halves(conv_weight_grad, paired_conv_weight_grad, _positions)

# Sample geometries: (x, w, stride, padding, dilation, groups).
_GEOMETRIES: list[tuple[Shape, Shape, Shape, Shape, Shape, int]] = [
    ((2, 4, 5, 6), (6, 4, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((1, 4, 7, 9), (4, 2, 3, 2), (2, 2), (0, 1), (1, 3), 2),
    ((2, 2, 9), (2, 2, 3), (2,), (2,), (1,), 1),
    ((1, 6, 4, 20), (18, 6, 1, 1), (1, 1), (0, 0), (1, 1), 1),
]


def _samples(m: SampleDrawer, sibling: Contract) -> list[Any]:
    samples = []
    for x, w, stride, padding, dilation, groups in _GEOMETRIES:
        geometry: dict[str, Any] = {
            "stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
        }  # fmt: skip
        types = TensorType(DType.f32, x), TensorType(DType.f32, w)
        out = conv.shape_rule(types, **geometry)
        if sibling is conv:
            samples.append(m(m.normal(*x), m.normal(*w), **geometry))
        elif sibling is conv_input_grad:
            samples.append(m(m.normal(*out), m.normal(*w), size=x[2:], **geometry))
        else:
            samples.append(m(m.normal(*x), m.normal(*out), kernel=w[2:], **geometry))
    return samples

"""Derivatives against numbers: is the gradient rule of each op the derivative of what it computes?

in : a traced call, before all passes, with its arrays
out: two stages. *Rules*: the rule of each op of forward, by central differences in float64, on the
     operands that it meets in this call and at extremes. *Whole*: what the reverse sweep makes of
     all rules together, of the outputs that no backward comes before.

All other stages compare one way of computing a graph with another; a wrong rule is wrong in all.
Ops of elements are compared element by element; others by what a step in a drawn direction changes.
Where the differences to both sides are not the same, or not those of a smaller step, there is a
kink or a jump, where a rule is free to choose (docs/arithmetic.md), and nothing is compared. At
extremes a rule must also be finite in float32 where it is in float64: what overflows on the way is
found so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from graphc.autodiff.joint import derive_joint
from graphc.debug.places import place_of
from graphc.debug.traced import TracedCall
from graphc.debug.verification.eager_stage import MOST_FINDINGS
from graphc.debug.verification.findings import Finding, StageResult
from graphc.debug.verification.op_kernels import OpKernels
from graphc.errors import GraphError
from graphc.ir.builder import GraphBuilder
from graphc.ir.graph_queries import ancestors
from graphc.ir.nodes import CONSTANT, FORWARD, INPUT, Graph, Node, exact
from graphc.ir.registry import lookup
from graphc.ir.types import DType, TensorType
from graphc.ops.interpreter import evaluate
from graphc.records import field, record

Array = np.ndarray[Any, Any]

TOLERANCE = 1e-5
"""Of the greater of the derivative and 1, besides what rounding leaves of a difference."""
KINK = 1e-3
"""How far the differences to both sides may be apart where there is none."""
STEP = 1e-6
SMALLER = 8
MOST_ELEMENTS = 4096
"""Of an op of elements that are looked at."""
EXTREMES = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, 1e-3, -1e-3, 20.0, -20.0, 88.0, -88.0, 104.0, -104.0,
    1e4, -1e4,
)  # fmt: skip
FAR = (*EXTREMES, 1e-20, -1e-20, 1e15, -1e15, 3e38, -3e38)
"""Of ops of one operand: with several, a step would reach over what one is small against."""
LARGEST = 1e5
"""Beyond, a step is larger than what a function does within one."""
SCALES = (1.0, 30.0, 1e-3)
"""What operands of other ops are multiplied by."""
DIRECTIONS = 3


@record(frozen=False)
class Counts:
    """What was compared, and what was not."""

    rules: int = 0
    elements: int = 0
    kinks: int = 0
    without: set[str] = field(default_factory=set)


def gradient_stages(call: TracedCall, kernels: OpKernels) -> Iterator[StageResult]:
    """Both stages; none where nothing of the graph is forward's."""
    counts, findings = Counts(), []
    nodes: dict[Any, tuple[int, Node, tuple[Array, ...]]] = {}

    def seen(number: int, node: Node, operands: tuple[Array, ...], _: Any) -> None:
        types = tuple(TensorType.of(operand) for operand in operands)
        if _is_forward(node) and any(type.dtype.is_float for type in types):
            key = (node.op, types, exact(node.attributes), bool(node.regions))
            nodes.setdefault(key, (number, node, tuple(map(np.array, operands))))

    kernels.outputs(call.graph, call.arrays, seen)
    for number, node, operands in nodes.values():
        said = _rule_is_wrong(node, operands, counts)
        if said:
            findings.append(Finding(
                f"the gradient rule of op {node.op}",
                f"%{number} = {node.op} : {node.types[0]}: {said}", place_of(node.location),
            ))  # fmt: skip
    left = f"; not of {', '.join(sorted(counts.without))}" if counts.without else ""
    compared = f"rules of {counts.rules} ops{left}, at {counts.elements:,} places"
    kinks = f" ({counts.kinks:,} at kinks are not)" if counts.kinks else ""
    promise = f"central differences in float64{kinks}"
    if counts.rules:
        yield StageResult("gradient rules", compared, promise, tuple(findings[:MOST_FINDINGS]))
    whole = None if findings else _whole_stage(call)  # which would tell the same again
    if whole is not None:
        yield whole


def _is_forward(node: Node) -> bool:
    return node.location is None or node.location.phase == FORWARD


# -- one op ----------------------------------------------------------------------------------------


def _rule_is_wrong(node: Node, operands: tuple[Array, ...], counts: Counts) -> str:
    """What is wrong with the rule of a node's op; nothing where it holds, or there is none."""
    op = lookup(node.op)
    floats = [type.dtype.is_float for type in node.types]
    if op.vjp is None or not op.differentiable or not any(floats) or "gradient" in op.exempt:
        return ""
    try:
        if op.kind == "region":
            raise GraphError("loops and branches are compared as parts of the whole")
        wide = _Derived.of(node, [_widened(operand) for operand in operands])
    except GraphError:
        counts.without.add(node.op)
        return ""
    counts.rules += 1
    if op.kind != "elementwise":
        scaled = [[_scaled(x, by) for x in operands] for by in SCALES]
        return next(filter(None, (_by_directions(wide, each, counts) for each in scaled)), "")
    flat = [np.asarray(operand).reshape(-1)[:MOST_ELEMENTS] for operand in operands]
    for values in (flat, _extremes(flat)):
        said = _by_elements(node, values, counts)
        if said:
            return said
    return ""


@record
class _Derived:
    """A graph, and it with the gradients by its float inputs."""

    graph: Graph
    joint: Graph
    scalar: bool

    @staticmethod
    def of(node: Node, operands: Sequence[Array]) -> _Derived:
        """Of a node alone, on operands of these types."""
        builder = GraphBuilder(node.op)
        inputs = [
            builder.input(f"x{i}", TensorType.of(operand)) for i, operand in enumerate(operands)
        ]
        attributes = {name: _wide_attribute(operands, value) for name, value in node.attributes}
        return _Derived.from_graph(
            builder.finish(*builder.apply(lookup(node.op), tuple(inputs), attributes))
        )

    @staticmethod
    def from_graph(graph: Graph) -> _Derived:
        whole = derive_joint(graph)
        return _Derived(graph, whole.graph, not whole.cotangents)

    def outputs(self, arrays: Sequence[Array]) -> list[Array]:
        """The float outputs."""
        results = evaluate(self.graph, tuple(arrays), reference=False)
        return [np.asarray(x) for x in results if TensorType.of(x).dtype.is_float]

    def cotangents(self, random: np.random.Generator) -> list[Array]:
        """A drawn gradient for each float output; of a scalar it is 1."""
        types = [type for type in self.graph.output_types if type.dtype.is_float]
        draw = np.ones if self.scalar else lambda shape: 0.5 + random.random(shape)
        return [np.asarray(draw(type.shape)).astype(type.dtype.numpy) for type in types]

    def gradients(self, arrays: Sequence[Array], cotangents: Sequence[Array]) -> dict[int, Array]:
        """By position of the float inputs."""
        seeds = () if self.scalar else cotangents
        results = evaluate(self.joint, (*arrays, *seeds), reference=False)
        positions = [i for i, t in enumerate(self.graph.input_types) if t.dtype.is_float]
        first = len(self.graph.outputs)
        return dict(zip(positions, map(np.asarray, results[first:]), strict=True))


def _by_elements(node: Node, values: Sequence[Array], counts: Counts) -> str:
    """The rule of an op of elements: all elements at once, by one operand after the other."""
    wide = [_widened(value) for value in values]
    try:
        derived = _Derived.of(node, wide)
        (weight,) = derived.cotangents(np.random.default_rng(0))
        gradients = derived.gradients(wide, [weight])
        numeric = {i: _by_differences(derived, wide, i, gradients[i] / weight) for i in gradients}
        own = _Derived.of(node, values)
        narrow = own.gradients(values, [weight.astype(own.graph.output_types[0].dtype.numpy)])
    except GraphError:
        return ""  # extremes that the op refuses
    # An op may choose its rule for one operand where another one is at a kink.
    smooth = np.all([np.isfinite(slope) for slope, _ in numeric.values()], axis=0)
    for position, (slope, wrong) in numeric.items():
        counts.elements += int(smooth.sum())
        counts.kinks += int((~smooth).sum())
        got, want, at = gradients[position], weight * slope, _first(smooth & wrong)
        if at < 0:
            got, want, at = narrow[position], got, _overflow(got, narrow[position])
        if at >= 0:
            operands = ", ".join(f"{float(v[at]):.6g}" for v in wide)
            return (
                f"by operand {position}, at ({operands}), it gives {float(got[at]):.6g}, not "
                f"{float(want[at]):.6g}"
            )
    return ""


def _by_differences(
    derived: _Derived, arrays: Sequence[Array], position: int, gradient: Array
) -> tuple[Array, Array]:
    """The slope by an operand, NaN where there is none to be had; where the gradient is another."""
    x = arrays[position]

    def moved(by: Array) -> Array:
        return derived.outputs([v + by if i == position else v for i, v in enumerate(arrays)])[0]

    slopes, right = np.full(x.shape, np.nan), np.zeros(x.shape, bool)
    for step in (STEP * np.maximum(np.abs(x), 1.0), STEP * np.abs(x)):
        slope, usable, noise = _slope(moved, step)
        usable &= np.abs(x) <= LARGEST
        with np.errstate(all="ignore"):
            near = np.abs(gradient - slope) <= TOLERANCE * np.maximum(np.abs(slope), 1.0) + noise
        slopes = np.where(usable & ~np.isfinite(slopes), slope, slopes)
        right |= usable & near
    return slopes, ~right


def _first(chosen: Array) -> int:
    """The first place that is chosen, -1 for none."""
    return int(np.argmax(chosen)) if chosen.any() else -1


def _overflow(wide: Array, narrow: Array) -> int:
    """The first element that float32 has a number for, and is none there; -1 for none."""
    if narrow.dtype != np.float32:
        return -1
    with np.errstate(all="ignore"):
        return _first(
            np.isfinite(wide.astype(np.float32)) & np.isfinite(wide) & ~np.isfinite(narrow)
        )


def _slope(moved: Callable[[Any], Any], step: Any, least: Any = 1.0) -> tuple[Any, Any, Any]:
    """The central difference; whether it is that of both sides and of a smaller step, and rounding
    leaves enough of it; and the noise of rounding. Of each element, or of a sum. Derivatives are
    held to what is above `least` of them."""
    with np.errstate(all="ignore"):
        up, here, down = moved(step), moved(0 * step), moved(-step)
        near = (moved(step / SMALLER) - moved(-step / SMALLER)) / (2 * step / SMALLER)
        slope = (up - down) / (2 * step)
        size = np.maximum(np.abs(slope), least)
        noise = 8 * SMALLER * np.finfo(float).eps * np.maximum(np.abs(up), np.abs(down)) / step
        sides = np.abs((up - here) - (here - down)) / step
        usable = np.isfinite(slope) & (sides <= KINK * size + noise) & (noise <= KINK * size)
        usable &= np.abs(slope - near) <= TOLERANCE * size / 2 + noise
    return slope, usable, noise


def _by_directions(derived: _Derived, operands: Sequence[Array], counts: Counts) -> str:
    """The rule of another op: what a step of one operand in a drawn direction changes."""
    random = np.random.default_rng(0)
    try:
        cotangents = derived.cotangents(random)
        gradients = derived.gradients(operands, cotangents)
        for position, gradient in gradients.items():
            for _ in range(DIRECTIONS):
                apart = _along(derived, operands, cotangents, {position: gradient}, random)
                counts.kinks += apart is None
                counts.elements += apart is not None
                if apart:
                    return f"by operand {position}, along a drawn direction {apart}"
    except GraphError:
        pass  # scaled operands that the op refuses
    return ""


def _along(
    derived: _Derived, arrays: Sequence[Array], cotangents: Sequence[Array],
    gradients: dict[int, Array], random: np.random.Generator,
) -> str | None:  # fmt: skip
    """What gradients say of a step in a drawn direction, if it is not what differences do; None at
    a kink."""
    signs = {i: np.where(random.random(g.shape) < 0.5, -1.0, 1.0) for i, g in gradients.items()}
    sizes = {i: max(float(np.max(np.abs(arrays[i]), initial=0.0)), 1e-3) for i in gradients}
    said = sum(float(np.sum(gradients[i] * signs[i] * sizes[i])) for i in gradients)
    scale = math.hypot(*(float(np.linalg.norm(gradients[i]) * sizes[i]) for i in gradients))
    here = derived.outputs(arrays)

    def total(by: float) -> float:
        """What changes, which rounding hurts less than what there is."""
        moved = [
            a + by * sizes[i] * signs[i] if i in signs else a for i, a in enumerate(arrays)
        ]  # fmt: skip
        changed = zip(cotangents, derived.outputs(moved), here, strict=True)
        return sum(float(np.sum(c * (x - at))) for c, x, at in changed)

    rounding = 1e-14 * sum(float(np.sum(np.abs(c * x))) for c, x in zip(cotangents, here))
    for step in (STEP, STEP / 100):
        numeric, usable, noise = _slope(total, step, max(scale, 1e-30))
        noise += SMALLER * rounding / step
        size = max(abs(numeric), scale, 1e-30)
        if usable and noise <= KINK * size:
            right = abs(said - numeric) <= 10 * TOLERANCE * size + noise
            return "" if right else f"it gives {said:.6g}, differences give {numeric:.6g}"
    return None


# -- the whole -------------------------------------------------------------------------------------


def _whole_stage(call: TracedCall) -> StageResult | None:
    """The gradients of a graph by all its float inputs; None where it has none in float64."""
    try:
        derived = _Derived.from_graph(_in_float64(call.graph))
        arrays = [_widened(array) for array in call.arrays]
        random = np.random.default_rng(0)
        cotangents = derived.cotangents(random)
        gradients = derived.gradients(arrays, cotangents)
    except GraphError:
        return None
    if not gradients or not cotangents:
        return None
    told = [
        _along(derived, arrays, cotangents, gradients, random) for _ in range(DIRECTIONS)
    ]  # fmt: skip
    if all(each is None for each in told):
        return None
    compared = f"{len(gradients)} inputs, along {len(told) - told.count(None)} drawn directions"
    findings = []
    if any(told):
        for position, gradient in gradients.items():
            apart = _along(derived, arrays, cotangents, {position: gradient}, random)
            if apart:
                name = call.graph.input_names[position]
                findings.append(Finding("the reverse sweep", f"the gradient by %{name}: {apart}"))
        findings = findings or [Finding("the reverse sweep", next(filter(None, told)))]
    return StageResult(
        "gradients", compared, "central differences in float64", tuple(findings[:MOST_FINDINGS])
    )


def _in_float64(graph: Graph) -> Graph:
    """What is forward of a graph, its floats all float64. Raises GraphError where that has loops or
    branches, or there is none."""
    outputs, needed = [], set()
    for output in graph.outputs:
        before = ancestors(graph.nodes, [output])
        if all(_is_forward(graph.nodes[identity]) for identity in before):
            outputs.append(output)
            needed |= before
    if not outputs:
        raise GraphError(f"{graph.name} has no output of forward")
    builder = GraphBuilder(graph.name)
    values: dict[Any, Any] = {}
    for number, node in enumerate(graph.nodes):
        if node.op == INPUT:
            name = str(node.attribute("name"))
            results: Sequence[Any] = [builder.input(name, _wide_type(node.types[0]))]
        elif number not in needed:
            continue
        elif node.op == CONSTANT:
            results = [builder.constant(_widened(node.attribute("value").array))]
        elif node.regions:
            raise GraphError(f"{node.op} is not widened")
        else:
            attributes = {name: _wide(value) for name, value in node.attributes}
            operands = tuple(values[value.node, value.index] for value in node.operands)
            results = builder.apply(lookup(node.op), operands, attributes)
        values |= {(number, index): result for index, result in enumerate(results)}
    return builder.finish(*(values[value.node, value.index] for value in outputs))


def _wide_type(type: TensorType) -> TensorType:
    return type.with_dtype(_wide(type.dtype))


def _wide(value: Any) -> Any:
    """float64 for a narrower float type; anything else as it is."""
    return DType.f64 if isinstance(value, DType) and value.is_float else value


def _wide_attribute(operands: Sequence[Array], value: Any) -> Any:
    return _wide(value) if any(x.dtype == np.float64 for x in operands) else value


def _widened(array: Array) -> Array:
    is_float = TensorType.of(np.asarray(array)).dtype.is_float
    return np.asarray(array, np.float64) if is_float else np.asarray(array)


def _scaled(array: Array, by: float) -> Array:
    wide = _widened(array)
    return wide * by if wide.dtype == np.float64 else wide


def _extremes(flat: Sequence[Array]) -> list[Array]:
    """Extremes in the types of operands: of two floats, each with each."""
    floats = sum(TensorType.of(array).dtype.is_float for array in flat)
    values = np.asarray(FAR if floats == 1 else EXTREMES)
    count = len(values) ** 2
    drawn = np.random.default_rng(0)
    grids = [np.repeat(values, len(values)), np.tile(values, len(values))]
    result = []
    for array in flat:
        if TensorType.of(array).dtype.is_float:
            grid = grids.pop(0) if grids else drawn.choice(values, count)
            result.append(grid.astype(array.dtype))
        else:
            result.append(np.resize(array, count) if array.size else np.zeros(count, array.dtype))
    return result

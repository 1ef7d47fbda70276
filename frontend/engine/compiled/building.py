"""A compiled function as what `graphc.build` takes: its graphs, and its state as it is now.

in : a function or Module, arguments like those of its calls, and which of their sizes are open
out: an `ObjectSource`, traced anew for the sizes it is asked for

Whatever runs here leaves all state as it was: tensors, `.grad`s, optimizers, random numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from frontend.engine.compiled.inputs import in_order
from frontend.engine.compiled.inspection import OptimizerStates
from frontend.engine.compiled.options import Options
from frontend.engine.compiled.overlap import check_overlap
from frontend.engine.outside.kinds import is_nn_module
from frontend.engine.outside.source import (
    ArgumentSource,
    CapturedSource,
    ComputedSource,
    GradSource,
    HostSource,
    InputSource,
)
from frontend.engine.sizes.open_sizes import GREATEST_INT, LEAST_INT, NAMES, SizedArguments
from frontend.engine.sizes.size_rules import LEAST, SizeRule, rules_of
from frontend.engine.tensors import tree
from frontend.engine.tensors.tensor import Tensor, make
from frontend.engine.tracing.captured import GraphInput
from frontend.engine.tracing.leaving import leaving
from frontend.engine.tracing.naming import reachable
from frontend.engine.tracing.tracer import Trace, labels_of, name_of, run_trace
from graphc.build.built_source import (
    InputPlace,
    ObjectSource,
    OfArgument,
    OfNumber,
    OfResult,
    OfState,
    Opening,
    OutputPlace,
    SourceGraph,
    StateArray,
)
from graphc.build.number_text import is_native
from graphc.errors import ArgumentError, TraceError
from graphc.ir.dims import Dim, Symbol, dim
from graphc.ir.size_floats import float_argument, text_of, value_at
from graphc.ir.types import TensorType


def source_of(
    function: Callable[..., Any], arguments: Sequence[Any], keywords: Mapping[str, Any],
    options: Options, keep_grads: bool, known: SizedArguments | None = None,
) -> ObjectSource:  # fmt: skip
    """The source of a function on arguments like these. Which sizes are open `options.dynamic` and
    marks of the tensors say; where they say nothing, those that a call before (`known`) left open.
    Ints and floats among the arguments stay open. Raises TraceError for what an object cannot do,
    and what tracing raises."""
    call = _BuiltCall(function, tuple(arguments), dict(keywords), options, keep_grads, known)
    return ObjectSource(
        name_of(function), tuple(call.labels), call.opened.sizes, call.opened.floats,
        call.example, tuple(np.array(leaf._array("build")) for leaf in call.leaves),
        lambda: tuple(call.state.values()), call.at, options.level,
    )  # fmt: skip


class _Opened(NamedTuple):
    """The arguments with names for what is open: for each axis of each tensor its symbol or None,
    and for each number its symbol, its name as a float, or None."""

    axes: tuple[tuple[Symbol | None, ...], ...]
    numbers: tuple[Symbol | str | None, ...]

    @property
    def sizes(self) -> tuple[Symbol, ...]:
        """The open sizes and ints, each once."""
        symbols = [symbol for axes in self.axes for symbol in axes]
        symbols += [part for part in self.numbers if isinstance(part, Symbol)]
        named = {symbol.name: symbol for symbol in symbols if symbol is not None}
        return tuple(named.values())

    @property
    def floats(self) -> tuple[str, ...]:
        """Names of the open floats."""
        return tuple(part for part in self.numbers if isinstance(part, str))


class _BuiltCall:
    """A function on certain arguments, traced as often as is asked. `state` are the fields that
    traces so far have."""

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any],
        options: Options, keep_grads: bool, known: SizedArguments | None,
    ):  # fmt: skip
        self.function = function
        self.keep_grads = keep_grads
        self.leaves: list[Tensor] = []
        self.structure = tree.flatten((arguments, keywords), self.leaves)
        self.labels = labels_of(function, self.structure)
        if len({*map(id, self.leaves)}) < len(self.leaves):
            raise ArgumentError(
                "one tensor is given for several arguments, which in C lie in memory of their own",
                hint="give each a copy",
            )
        self.numbers = tree.numbers(self.structure)
        self.opened = _opened(options.dynamic, self.labels, self.leaves, self.numbers, known)
        self.example = self._example()
        self.state: dict[str, StateArray] = {}
        self._optimizers = OptimizerStates()
        self._labels = _Labels()
        self._arrays: dict[str, np.ndarray] = {}

    def _example(self) -> dict[str, Any]:
        example: dict[str, Any] = {}
        for leaf, axes in zip(self.leaves, self.opened.axes):
            for symbol, size in zip(axes, leaf.tensor_type.shape):
                if symbol is not None:
                    example.setdefault(symbol.name, size)
        for part, number in zip(self.opened.numbers, self.numbers):
            if part is not None:
                example.setdefault(part if isinstance(part, str) else part.name, number)
        return example

    def at(self, opening: Opening) -> SourceGraph:
        """Traced so."""
        leaves = [self._leaf(*each, opening) for each in zip(self.leaves, self.opened.axes)]
        with self._optimizers:
            traced = run_trace(
                self.function,
                leaves,
                self.structure,
                name_of(self.function),
                self._sized(opening),
            )
            try:
                check_overlap(traced, leaves)
                return self._source(traced, opening)
            finally:
                self._optimizers.keep()
                traced.session.put_back()

    def _leaf(self, leaf: Tensor, axes: Sequence[Symbol | None], opening: Opening) -> Tensor:
        """A tensor of the sizes of an example; itself, where it has these."""
        shape = tuple(
            size if symbol is None else opening.example[symbol.name]
            for symbol, size in zip(axes, leaf.tensor_type.shape)
        )
        if shape == leaf.tensor_type.shape:
            return leaf
        type = leaf.tensor_type.with_shape(shape)
        other = make(np.zeros(shape, type.dtype.numpy), type)
        other._requires_grad = leaf._requires_grad
        return other

    def _sized(self, opening: Opening) -> SizedArguments | None:
        """What is left open in a trace; None where all is fixed."""

        def extent(symbol: Symbol | None, size: int) -> Any:
            if symbol is None:
                return size
            if symbol.name in opening.fixed:
                return opening.example[symbol.name]
            return dim(symbol.name, max(symbol.least, opening.least), symbol.most)

        types = [
            leaf.tensor_type.with_shape(tuple(map(extent, axes, leaf.tensor_type.shape)))
            for leaf, axes in zip(self.leaves, self.opened.axes)
        ]
        numbers = [
            float_argument(part) if isinstance(part, str) else extent(part, number)
            for part, number in zip(self.opened.numbers, self.numbers)
        ]
        example = {k: v for k, v in opening.example.items() if k not in opening.fixed}
        if not example:
            return None
        return SizedArguments(tuple(types), tuple(numbers), example)

    # -- what a trace gave -------------------------------------------------------------------

    def _source(self, traced: Trace, opening: Opening) -> SourceGraph:
        session = traced.session
        _check(traced)
        graph_inputs = in_order(session.inputs)
        keys = _Keys(self.function, graph_inputs)
        numbers = iter(session.numbers.expressions)
        places = [self._input(x, keys, numbers, opening) for x in graph_inputs]
        count = traced.first_update
        outputs: list[Any] = traced.outputs[: count + len(traced.updated)]
        order = {id(x): position for position, x in enumerate(graph_inputs)}
        aliases = [(count + i, order[id(x)]) for i, x in enumerate(traced.updated)]
        results: list[OutputPlace | None] = [OfResult(i) for i in range(count)]
        results += [None] * len(traced.updated)
        for label, array, at, output in self._gradients(traced, graph_inputs, keys):
            if at is not None:
                aliases.append((len(outputs), at))
            else:
                self._field(StateArray(label, label, array, "a gradient", is_saved=False))
            results.append(None if at is not None else OfState(label))
            outputs.append(output)
        with leaving(session), session:
            named = [(x.name, x.var) for x in graph_inputs]
            graph = session.builder.snapshot(named, outputs, aliases)
        guards = () if session.answers is None else session.answers.guards
        return SourceGraph(graph, tuple(places), tuple(results), opening.example, guards)

    def _input(
        self, x: GraphInput, keys: _Keys, numbers: Iterable[Any], opening: Opening
    ) -> InputPlace:
        source = x.source
        if isinstance(source, ArgumentSource):
            return OfArgument(source.position)
        if isinstance(source, ComputedSource):
            expression = next(iter(numbers))
            if is_native(expression, x.type.dtype):
                return OfNumber(expression)
            value = np.asarray(value_at(expression, opening.example)).astype(x.type.dtype.numpy)
            note = f"Python alone computes it, {text_of(expression)}: set it before each call"
            label = self._labels.of(x.source, x.name)
            return self._field(StateArray(label, label, value, note))
        if isinstance(source, CapturedSource | GradSource | HostSource):
            label = self._labels.of(x.source, x.name)
            array = self._arrays.get(label)
            if array is None:
                array = self._arrays[label] = np.array(source.array(()))
            is_weight = isinstance(source, CapturedSource)
            field = StateArray(label, keys.of(x, label), array, is_weight=is_weight)
            return self._field(field)
        raise TraceError(
            f"{x.name} lies in the memory around a tensor, which an object does not see",
            hint="hand in the tensor of which it is a part",
        )

    def _field(self, field: StateArray) -> OfState:
        """A field of the state, the same in all traces."""
        known = self.state.setdefault(field.label, field)
        if TensorType.of(known.array) != TensorType.of(field.array):
            raise TraceError(f"{field.label} has another type in another trace of this function")
        return OfState(field.label)

    def _gradients(
        self, traced: Trace, graph_inputs: Sequence[GraphInput], keys: _Keys
    ) -> Iterable[tuple[str, np.ndarray, int | None, Any]]:
        """The gradients that are left: label, zeros, the input that it is added to (None: there is
        none), and the variable."""
        before = {
            id(x.source.of): position
            for position, x in enumerate(graph_inputs)
            if isinstance(x.source, GradSource)
        }
        names = {id(x.tensor): self._labels.of(x.source, x.name) for x in graph_inputs}
        first = traced.first_update + len(traced.updated)
        for target, position, type in traced.grads:
            owner: Any = target if isinstance(target, Tensor) else target.tensor(self.leaves)
            at = before.get(id(owner))
            if position is None or position < first or (at is None and not self.keep_grads):
                continue
            label = f"{names.get(id(owner), f'state{position}')}.grad"
            zeros = np.zeros(type.shape, type.dtype.numpy)
            yield label, zeros, at, traced.outputs[position]


class _Labels:
    """What inputs are called in all traces of a function: nameless ones are counted in each trace
    anew, and another trace may meet them in another order."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[str, InputSource[Any]]] = {}  # sources hold what ids are of
        self._taken: set[str] = set()

    def of(self, source: InputSource[Any], name: str) -> str:
        """The label of an input, which its name becomes where no other has it."""
        identity = _identity(source, name)
        if identity not in self._known:
            numbered = (f"{name}_{count}" for count in itertools.count(1))
            label = next(
                each for each in itertools.chain([name], numbered) if each not in self._taken
            )
            self._taken.add(label)
            self._known[identity] = label, source
        return self._known[identity][0]


def _identity(source: InputSource[Any], name: str) -> object:
    """What tells an input from all others, in each trace."""
    if isinstance(source, CapturedSource):
        return "tensor", id(source.captured)
    if isinstance(source, GradSource):
        return "grad", _identity(source.source, name)
    if isinstance(source, HostSource):
        return "number", *source.place
    return type(source), name


class _Keys:
    """What files call the fields of the state: as `state_dict()` of a Module does, where that is no
    other field's name."""

    def __init__(self, function: Callable[..., Any], graph_inputs: Sequence[GraphInput]):
        self._keys: dict[int, str] = {}
        taken = {x.name for x in graph_inputs}
        for _, owner in reachable(function):
            if is_nn_module(type(owner)):
                for name, tensor in [*owner.named_parameters(), *owner.named_buffers()]:
                    if name not in taken and id(tensor) not in self._keys:
                        self._keys[id(tensor)] = name
                        taken.add(name)

    def of(self, x: GraphInput, label: str) -> str:
        """The key of an input of this label."""
        if isinstance(x.source, CapturedSource):
            return self._keys.get(id(x.source.captured), label)
        return label


def _check(traced: Trace) -> None:
    """Raise TraceError for what hands values to Python."""
    if traced.session.taps or traced.kept or traced.passed:
        raise TraceError(
            "the function hands values to Python while it runs (frontend.tap, an attribute that "
            "is assigned, a gradient that goes on outside), which an object runs without",
            hint="return them",
        )


def _opened(
    dynamic: Any, labels: Sequence[str], leaves: Sequence[Tensor], numbers: Sequence[Any],
    known: SizedArguments | None,
) -> _Opened:  # fmt: skip
    """Which sizes and numbers are open, and their names."""
    rules = rules_of(dynamic, labels, leaves)
    taken = {rule.name for rule in rules.values()}
    free = iter([name for name in NAMES if name not in taken])
    count = 0
    by_size: dict[int, str] = {}

    def fresh() -> str:
        nonlocal count
        count += 1
        return next(free, f"n{count}")

    axes: list[tuple[Symbol | None, ...]] = []
    for position, leaf in enumerate(leaves):
        own: list[Symbol | None] = []
        for axis, size in enumerate(leaf.tensor_type.shape):
            rule = rules.get((position, axis))
            if rule is None and not rules and known is not None:
                own.append(_symbol_known(known, position, axis))
                continue
            if rule is None and dynamic is True and size >= LEAST:
                if size not in by_size:
                    by_size[size] = fresh()
                rule = SizeRule(by_size[size])
            if rule is None or rule.static:
                own.append(None)
                continue
            least = rule.least if rule.least > LEAST else 0
            own.append(Symbol(rule.name or fresh(), least, rule.most))
        axes.append(tuple(own))
    parts = [_number(number, fresh) for number in numbers]
    return _Opened(tuple(axes), tuple(parts))


def _symbol_known(known: SizedArguments, position: int, axis: int) -> Symbol | None:
    """The name of an axis that a call before left open."""
    extent: Any = known.types[position].shape[axis]
    symbol = extent.symbol if isinstance(extent, Dim) else None
    if symbol is None:
        return None
    return Symbol(symbol.name, symbol.least if symbol.least > LEAST else 0, symbol.most)


def _number(number: Any, fresh: Callable[[], str]) -> Symbol | str | None:
    """What stands for an int or float among the arguments."""
    if type(number) is int:
        inside = LEAST_INT <= number <= GREATEST_INT
        return Symbol(fresh(), LEAST_INT, GREATEST_INT) if inside else None
    return fresh()

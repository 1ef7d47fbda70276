"""`torch.utils.flop_counter`: how many floating-point operations products and convolutions take.

in : a block of code, eager or compiled
out: operations (a product that is added counts two), by Module and by operator

Counted is what the operators here compute, looked at as they run: `scaled_dot_product_attention`
by the products it is defined by, a compiled call by its graph, forward and backward, for the
Modules around it. (It is traced anew for that, since hooks of all Modules would be in it.)
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

from frontend.autograd.graph import register_multi_grad_hook
from frontend.engine.tensors import tree
from frontend.engine.tensors.state import swap_observer, tracing
from frontend.engine.tensors.tensor import Tensor
from frontend.nn.modules.global_hooks import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from graphc.ir.nodes import CONSTANT, INPUT, Graph
from graphc.ir.registry import lookup
from graphc.ops.contract import conv, conv_input_grad, conv_weight_grad, matmul
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.contract import Contract
from graphc.ops.kinds.op import Types
from graphc.ops.kinds.region import Region
from graphc.ops.nn.attention import attention, attention_grad
from graphc.ops.nn.products import addmm
from graphc.system import IMPORTING

__all__ = ["FlopCounterMode", "flops_of"]

_NAMES = {
    addmm.name: "addmm", conv.name: "convolution", conv_input_grad.name: "convolution_backward",
    conv_weight_grad.name: "convolution_backward", attention.name: "scaled_dot_product_attention",
    attention_grad.name: "scaled_dot_product_attention_backward",
}  # fmt: skip


def _operator(op: Any, operands: Types) -> Any:
    """What PyTorch counts an op under: `torch.ops.aten.mm`; text where there is no such one."""
    with IMPORTING:
        from frontend import ops

    if op.name == matmul.name:
        return ops.aten.mm if len(operands[0].shape) == 2 else ops.aten.bmm
    name = _NAMES.get(op.name, op.name)
    return getattr(ops.aten, name, f"aten.{name}")


def flops_of(op: Any, operands: Types, results: Types, attributes: dict[str, Any]) -> int:
    """Floating-point operations of the products in an op, on operands of these types: those of all
    turns of a loop over time, of one turn of one with a condition, of the dearest branch."""
    if isinstance(op, Composite):
        return _of_graph(op.definition(operands, attributes))
    if isinstance(op, Region):
        graphs = [attributes[name] for name in op.region_names]
        flops = max(map(_of_graph, graphs), default=0)
        return flops * int(attributes.get("length", 1))
    if not isinstance(op, Contract):
        return 0
    if op.name in (conv.name, conv_input_grad.name, conv_weight_grad.name):
        # Each place of the convolution's result reads one filter, whichever of the three is asked.
        places, filters = {
            conv.name: (results[0], operands[-1]), conv_input_grad.name: operands,
            conv_weight_grad.name: (operands[-1], results[0]),
        }[op.name]  # fmt: skip
        return 2 * places.numel * (filters.numel // max(filters.shape[0], 1))
    space = op.space(operands, **attributes)
    products = 1
    for extent in (*space.batch, *space.m, *space.n, *space.k):
        products *= int(extent)
    return 2 * products


def _of_graph(graph: Graph) -> int:
    return sum(flops for _, flops in _counted(graph))


def _counted(graph: Graph) -> Iterator[tuple[Any, int]]:
    """What each node of a graph is counted under, and its operations."""
    for node in graph.nodes:
        if node.op not in (INPUT, CONSTANT):
            op: Any = lookup(node.op)
            operands = tuple(graph.type_of(value) for value in node.operands)
            attributes: dict[str, Any] = dict(node.attributes)
            if isinstance(op, Region):
                attributes |= dict(zip(op.region_names, node.regions))
            flops = flops_of(op, operands, tuple(node.types), attributes)
            if flops:
                yield _operator(op, operands), flops


class FlopCounterMode:
    """`with FlopCounterMode() as counter:` counts what runs inside; `get_total_flops()` and
    `get_flop_counts()` tell it, and a table with Modules down to `depth` is printed at the end
    where `display`. `mods` is not needed; `custom_mapping` gives, by operator, what counts it in
    place of the rule here: `function(*shapes, out_shape=shape)`."""

    def __init__(
        self, mods: Any = None, depth: int | None = 2, display: bool = True,
        custom_mapping: dict[Any, Callable[..., int]] | None = None,
    ):  # fmt: skip
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it",
                          stacklevel=2)  # fmt: skip
        self.depth = depth
        self.display = display
        self.custom_mapping = dict(custom_mapping or {})
        self.flop_counts: dict[str, Counter[Any]] = defaultdict(Counter)
        self._names: dict[int, tuple[Any, str]] = {}  # of Modules, which are kept so that ids hold
        self._forward: list[str] = []
        self._backward: list[str] = []
        self._open = ExitStack()

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self._observer = swap_observer(self)
        self._open.callback(swap_observer, self._observer)
        self._open.enter_context(register_module_forward_pre_hook(self._enters))
        self._open.enter_context(register_module_forward_hook(self._leaves, always_call=True))
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.close()
        self._names.clear()
        self._forward, self._backward = [], []
        if self.display:
            print(self.get_table(self.depth))

    def get_total_flops(self) -> int:
        """All operations that were counted."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """By Module ("Net.conv1"; "Global" is all), by operator (`torch.ops.aten.mm`)."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as a table, Modules down to `depth` (None: the one of the counter)."""
        depth = (999_999 if self.depth is None else self.depth) if depth is None else depth
        total = max(self.get_total_flops(), 1)
        rows = [("Module", "FLOP", "% Total")]
        for name in sorted(self.flop_counts, key=lambda name: (name != "Global", name)):
            level = 0 if name == "Global" else name.count(".") + 1
            if level > depth:
                continue
            counts, indent = self.flop_counts[name], " " * level
            share = sum(counts.values())
            rows.append((indent + name, _short(share), f"{100 * share / total:.2f}%"))
            for operator, flops in counts.items():
                label = f"{indent} - {operator}"
                rows.append((label, _short(flops), f"{100 * flops / total:.2f}%"))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])

    # -- what runs ---------------------------------------------------------------------------

    def __call__(self, op: Any, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """The block of an op, which is counted when it has run; see `tensors.observer`."""
        if self._observer is None:
            return self._counting(op, operands, attributes)
        return self._with_other(op, operands, attributes)

    @contextmanager
    def _counting(self, op: Any, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        def note(results: tuple[Any, ...]) -> None:
            types = tuple(x.tensor_type for x in operands)
            made_of = tuple(x.tensor_type for x in results)
            self._note(
                _operator(op, types), flops_of(op, types, made_of, attributes), types, made_of
            )

        yield None if isinstance(op, str) else note

    @contextmanager
    def _with_other(self, op: Any, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Who looked on before does so inside."""
        other = nullcontext() if self._observer is None else self._observer(
            op, operands, attributes
        )  # fmt: skip
        with self._counting(op, operands, attributes) as ours, other as theirs:
            yield lambda results: [note(results) for note in (ours, theirs) if note is not None]

    def run(self, executable: Any, arrays: list[Any]) -> Any:
        """A compiled call, counted by its graph."""
        for operator, flops in _counted(executable.graph):
            self._note(operator, flops, (), ())
        return executable.run(arrays) if self._observer is None else (
            self._observer.run(executable, arrays)
        )  # fmt: skip

    def _note(self, operator: Any, flops: int, operands: Types, results: Types) -> None:
        rule = self.custom_mapping.get(operator)
        if rule is not None and operands:
            shapes = [type.shape for type in operands]
            outs = [type.shape for type in results]
            flops = rule(*shapes, out_shape=outs[0] if len(outs) == 1 else outs)
        if flops:
            for name in {"Global", *self._forward, *self._backward}:
                self.flop_counts[name][operator] += flops

    # -- Modules -----------------------------------------------------------------------------

    def _name(self, module: Any) -> str:
        if id(module) not in self._names:
            for path, each in module.named_modules():
                name = ".".join(filter(None, (type(module).__name__, path)))
                self._names.setdefault(id(each), (each, name))
        return self._names[id(module)][1]

    def _enters(self, module: Any, args: Any) -> None:
        if tracing():
            return
        name = self._name(module)
        if not self._forward:
            self._backward = []  # of a Module whose inputs took no gradients
        self._forward.append(name)

        def leaves() -> None:
            if name in self._backward:
                self._backward.remove(name)

        self._when_computed(args, leaves)

    def _leaves(self, module: Any, args: Any, output: Any) -> None:
        if tracing():
            return
        name = self._forward.pop()
        self._when_computed(output, lambda: self._backward.append(name))

    @staticmethod
    def _when_computed(values: Any, then: Callable[[], Any]) -> None:
        """Call `then` once the gradients of these tensors were computed."""
        tensors: list[Tensor] = []
        tree.flatten(values, tensors)
        wanted = [x for x in tensors if x.requires_grad]
        if wanted:
            register_multi_grad_hook(wanted, lambda gradients: then())


def _short(number: int) -> str:
    """With the unit that leaves at least one digit: 1.500M."""
    units = ["", "K", "M", "B", "T", "P"]
    power = min(max(len(str(number)) - 1, 0) // 3, len(units) - 1)
    return f"{number}" if not power else f"{number / 1000**power:.3f}{units[power]}"

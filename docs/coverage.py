"""Writes docs/coverage.md: which of PyTorch's public names the frontend has.

    python docs/coverage.py            write docs/coverage.md from docs/pytorch_names.txt
    python docs/coverage.py --names    write docs/pytorch_names.txt anew (needs torch)

A name is *done* where the frontend has it and a test uses it in its namespace. Those it has without
are *present*. Names that it has not, or that raise when they are used, are *planned*, unless they
belong to something the project leaves out; those are listed with the reason.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
NAMES = HERE / "pytorch_names.txt"
TABLE = HERE / "coverage.md"

SPACES = (
    "torch", "torch.Tensor", "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.nn.utils",
    "torch.optim", "torch.optim.lr_scheduler", "torch.autograd", "torch.autograd.functional",
    "torch.distributions", "torch.func", "torch.fx", "torch.overrides", "torch.utils.data",
    "torch.linalg", "torch.fft", "torch.special", "torch.signal.windows", "torch.sparse",
)  # fmt: skip

# What the project leaves out: a pattern of names, and why.
OUT_OF_SCOPE = (
    (r"scaled_(grouped_)?mm|cudnn|miopen|mkldnn|cuda|ipu|xla|xpu|hpu|vulkan|fbgemm|DataParallel|Distributed|"
     r"is_distributed|pin_memory|is_pinned|is_shared|share_memory|module_load|"
     r"SyncBatchNorm|convert_sync|skip_init|set_default_device|"
     r"get_default_device|Event|Stream|mtia|is_maia|is_mps|is_vulkan|is_meta|is_mtia",
     "other devices, several machines"),
    (r"sparse|csr|csc|bsr|bsc|coo|ccol|crow|col_indices|row_indices|coalesce|smm|spmm|hspmm|"
     r"hsmm|dsmm|saddmm|to_dense|values_copy|^indices$|^values$|sspaddmm|"
     r"jagged|nested|to_padded", "sparse and nested tensors"),
    (r"quint|qint|quantiz|q_scale|q_zero|q_per|qscheme|per_tensor|per_channel|fake_quant|"
     r"dequantize|int_repr|choose_qparams|fused_moving", "quantized tensors"),
    (r"chalf|complex32", "complex numbers of 16-bit parts"),
    (r"^(Module|Parameter|Buffer)Dict$|^GraphExecutorState$|BroadcastingList|_notes$|^TYPE_CHECKING$|boolean_dispatch|^GRID_SAMPLE|assert_int_or_pair|"
     r"^Optional$|factory_kwargs|swap_in_optimizer|Script|JIT|Graph$|^Block|Value$|CompilationUnit|import_ir|parse_|jit|Type$|Future|"
     r"^fork$|^wait$|Code$|CallStack|FunctionSchema|Argument|AliasDb|Gradient$|IODescriptor|"
     r"ErrorReport|Module(Dict)?Serial|Serialization|PyTorchFile|OperatorInfo|ThroughputBenchmark|"
     r"Logger|Capsule|Node$|^Use$|^Tag|Dispatch|DisableTorch|merge_type|unify_type|AggregationType|"
     r"Benchmark|ExecutionPlan|StaticModule|SymInt|SymFloat|SymBool|^sym_|TracingState|"
     r"Concrete|FatalError|DeepCopyMemo|PRIVATE_OPS|typename|classproperty|get_file_path|"
     r"prepare_multiprocessing|FileCheck|CompleteArg|^AVG$|^SUM$|USE_|compiled_with|export$|"
     r"has_names|names$|align_|refine_names|rename|init_num_threads|thread_safe_generator|"
     r"variable$|kineto|ProfilerEvent|profil|graph$|forward_ad|^functional$",
     "internals, TorchScript, named tensors"),
    (r"_copy$|native_|_native|convolution$|conv_tbc|batch_norm_|_backward|grid_sampler|"
     r"embedding_renorm|feature_dropout|segment_reduce|_legacy|unsafe_|hash_tensor|nonzero_static|"
     r"affine_grid_generator|norm_except|slice_inverse|empty_quantized|empty_permuted|"
     r"bit$|bits\d|float4|float8|uint(1|2|3|4|5|6|7)$|^int(1|2|3|4|5|6|7)$|Storage|storage|"
     r"untyped|from_file|module_load|resize_as_sparse|layout|set_$|"
     r"is_warn_always|set_warn_always|flush_denormal|autocast|GradScaler|OutOfMemory|Accelerator|"
     r"_batched|get_float32|set_float32|interop|_indices_copy|sym_|newaxis_",
     "storage, autocast, variants for PyTorch's own compiler"),
)  # fmt: skip


@functools.cache
def public_names() -> tuple[tuple[str, list[str]], ...]:
    """(namespace, its names), as recorded."""
    space = ""
    names: dict[str, list[str]] = {}
    for line in NAMES.read_text("utf-8").splitlines():
        if line.startswith("["):
            space = line.strip("[]")
        elif line and not line.startswith("#"):
            names.setdefault(space, []).extend(line.split())
    return tuple(names.items())


def place(space: str) -> Any:
    """The frontend's object for one of PyTorch's namespaces."""
    if space == "torch.Tensor":
        return import_module("frontend").Tensor
    name = "frontend" + space.removeprefix("torch")
    return None if find_spec(name) is None else import_module(name)


def has(target: Any, name: str) -> bool:
    """Whether the frontend has a name, and not only what raises when it is used."""
    return hasattr(target, name) and not hasattr(getattr(target, name), "absent")


ROOTS = {"torch": "torch", "frontend": "torch"}
"""What a file may import that PyTorch's namespace is."""

BY_CONVENTION = {
    "t": "torch", "system": "torch", "source": "torch", "nn": "torch.nn",
    "F": "torch.nn.functional",
}  # fmt: skip
"""What parameters stand for in tests that run in both, beside PyTorch."""


def tested() -> set[str]:
    """The names that code of the tests and examples uses, each with its namespace: it reads
    `torch.sparse.mm`, imports it, writes it in a string, or writes `mm` in one where names of
    `torch.sparse` are looked up (`getattr(torch.sparse, name)`), in that file or in one that it
    imports from or that imports it. What is read of anything else may be a method of a Tensor.
    Comments and docstrings count for nothing: they run nothing."""
    files = {
        path: UsedNames(path, ast.parse(path.read_text("utf-8")))
        for folder in ("tests", "examples")
        for path in (HERE.parent / folder).rglob("*.py")
    }
    names: set[str] = set()
    for path, file in files.items():
        names |= file.used
        near = {path.with_name("conftest.py"), *file.imported}
        near |= {other for other, each in files.items() if path in each.imported}
        looked = file.looked_up.union(*[files[o].looked_up for o in near & files.keys()])
        names |= {f"{space}.{word}" for space in looked for word in file.words}
        words = file.words.union("123", *[files[other].words for other in near & files.keys()])
        for space, pattern in file.patterns:
            for name in dict(public_names()).get(space, ()):
                if (match := re.fullmatch(pattern, name)) and words.issuperset(match.groups()):
                    names.add(f"{space}.{name}")
    return names


class UsedNames:
    """What one file uses: names with their namespaces, those that it looks names up in, and the
    words of its strings."""

    def __init__(self, path: Path, tree: ast.Module):
        self.spaces = dict(ROOTS)
        if "peers" in path.parts or "fuzz" in path.parts or "zoo" in path.parts:
            self.spaces |= BY_CONVENTION
        self.used: set[str] = set()
        self.looked_up: set[str] = set()
        self.words: set[str] = set()
        self.patterns: set[tuple[str, str]] = set()
        """Namespaces and names of which parts are looked up: `getattr(nn, f"Conv{axes}d")`."""
        self.imported: set[Path] = set()
        nodes = list(ast.walk(tree))
        for node in nodes:
            self._import(node)
        self._stand_ins(nodes)
        statements = (node.value for node in nodes if isinstance(node, ast.Expr))
        documentation = {id(node) for node in statements if isinstance(node, ast.Constant)}
        for node in nodes:
            if id(node) not in documentation:
                self._read(node)

    def _import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname and (space := self.resolved(alias.name.split("."))):
                    self.spaces[alias.asname] = space
        elif isinstance(node, ast.ImportFrom) and node.module:
            space = self.resolved(node.module.split("."))
            self.imported.add(HERE.parent / Path(*node.module.split(".")).with_suffix(".py"))
            for alias in node.names:
                self.imported.add(HERE.parent / Path(*node.module.split("."), f"{alias.name}.py"))
                if space:
                    self.spaces[alias.asname or alias.name] = f"{space}.{alias.name}"
                    self.used.add(f"{space}.{alias.name}")

    def _stand_ins(self, nodes: list[ast.AST]) -> None:
        """Names of parameters of which only names of one namespace are read, which no Tensor has:
        they stand for it (`lambda d: d.Beta(1, 2)`)."""
        read: dict[str, set[str]] = {}
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                read.setdefault(node.value.id, set()).add(node.attr)
        known = {space: {*names} for space, names in public_names()}
        for name, attributes in read.items():
            spaces = [space for space, names in known.items() if attributes <= names]
            if len(spaces) == 1 and spaces != ["torch.Tensor"] and name not in self.spaces:
                self.spaces[name] = spaces[0]

    def _read(self, node: ast.AST) -> None:
        if isinstance(node, ast.Attribute):
            name = self.resolved(_chain(node))
            self.used.add(name or f"torch.Tensor.{node.attr}")
        elif isinstance(node, ast.Name) and node.id in self.spaces:
            self.used.add(self.spaces[node.id])
        elif isinstance(node, ast.Call) and node.args:
            if ast.unparse(node.func) in ("getattr", "hasattr", "vars"):
                space = self.resolved(_chain(node.args[0])) or "torch.Tensor"
                self.looked_up.add(space)
                if isinstance(node.args[-1], ast.JoinedStr):
                    self.patterns.add((space, _pattern(node.args[-1])))
            elif ast.unparse(node.func).endswith("methodcaller"):
                self.looked_up.add("torch.Tensor")
        elif isinstance(node, ast.JoinedStr):  # code with names in it
            for part, behind in zip(node.values, node.values[1:]):
                if isinstance(part, ast.Constant) and isinstance(behind, ast.FormattedValue):
                    if match := re.search(r"((?:\w+\.)+)$", str(part.value)):
                        chain = match[1].rstrip(".").split(".")
                        self.looked_up.add(self.resolved(chain) or "torch.Tensor")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.words.update(re.findall(r"\w+", node.value))
            for dotted in re.findall(r"\w+(?:\.\w+)+", node.value):
                if name := self.resolved(dotted.split(".")):
                    self.used.add(name)

    def resolved(self, chain: list[str]) -> str:
        """The full name that a chain of names is; empty where it is none of PyTorch's. What stands
        behind the last `torch` counts: `peer.torch.special`."""
        if not chain:
            return ""
        for i in reversed(range(1, len(chain))):
            if chain[i] in ROOTS:
                return ".".join(("torch", *chain[i + 1 :]))
        space = self.spaces.get(chain[0])
        return ".".join((space, *chain[1:])) if space else ""


def _pattern(text: ast.JoinedStr) -> str:
    """A regular expression for what a formatted string gives."""
    parts = [
        re.escape(str(v.value)) if isinstance(v, ast.Constant) else r"(\w+?)" for v in text.values
    ]
    return "".join(parts)


def _chain(node: ast.AST) -> list[str]:
    """`a.b.c` as its names; empty for anything else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


def reason(name: str) -> str | None:
    """Why a name is left out; None where it is planned."""
    for pattern, why in OUT_OF_SCOPE:
        if re.search(pattern, name):
            return why
    return None


SAMPLES = """\
`python -m tests.zoo.opdb --dtype float32 [--compiled]` runs PyTorch's own samples of its operators
in both. Of the samples in scope agree

| | float32 | float64 | int64 | bool | complex64 |
|---|---|---|---|---|---|
| eager | 99.97 % | 99.94 % | 99.95 % | 99.87 % | 99.93 % |
| compiled | 100 % | 99.96 % | 100 % | 100 % | 99.93 % |

`chalf` is missing, and of float64 six samples of Bessel functions differ, where
PyTorch's are coarser. Not counted is what PyTorch's tensors without data refuse too, because it
depends on values: `unique`, `unique_consecutive`, `nonzero`, `argwhere`, `masked_select`, `item`,
`allclose`, `equal`, `bincount`, `linalg.lstsq` by singular values, `narrow` and `tensor_split` at
a tensor, `repeat_interleave` without `output_size`, a bool mask as an index.

`python -m tests.zoo.docstrings` runs the examples in the docstrings of PyTorch 2.13 in both: of
3,477 statements 1,338 give the same value, 2,037 run without one that is compared (assignments,
Modules), and 102 differ or do not run for reasons that it lists.""".splitlines()
"""What runs of tests/zoo/opdb.py and docstrings.py gave."""


def table() -> str:
    """The text of docs/coverage.md."""
    lines = [
        "# What of PyTorch the frontend has", "",
        "Written by `python docs/coverage.py`; a test keeps it current. *Done*: the frontend has",
        "the name, with PyTorch's meaning, and the code of a test uses it, in this namespace.",
        "*Present*: it has the name, but no test names it there (it may be another name of what is",
        "tested). *Planned*: not yet, or the name raises NotImplementedError. The",
        "rest is left out, with the reason. Names are those of PyTorch 2.13.", "",
        "What changes the memory that a tensor has (`set_`, `view(dtype)`, `resize_` of an",
        "argument) runs eagerly only: in a trace it raises TraceError. So do loops and branches",
        "that carry complex numbers,",
        "and what has a result whose shape depends on the values of tensors. NumPy's LAPACK",
        "computes what `linalg` factors, in compiled code too.", "",
        *SAMPLES, "",
        "| namespace | done | present | planned | out of scope |", "|---|---|---|---|---|",
    ]  # fmt: skip
    details: list[str] = []
    words = tested()
    for space, names in public_names():
        target = place(space)
        there = [name for name in names if has(target, name)]
        done = [name for name in there if f"{space}.{name}" in words]
        untested = [name for name in there if f"{space}.{name}" not in words]
        missing = [name for name in names if not has(target, name)]
        planned = [name for name in missing if reason(name) is None]
        left_out = len(missing) - len(planned)
        lines.append(f"| `{space}` | {len(done)} | {len(untested)} | {len(planned)} | {left_out} |")
        details += ["", f"## {space}", "", f"Done: {listed(done)}"]
        if untested:
            details += ["", f"Present: {listed(untested)}"]
        if planned:
            details += ["", f"Planned: {listed(planned)}"]
        for why in dict.fromkeys(w for w in map(reason, missing) if w):
            left = [name for name in missing if reason(name) == why]
            details += ["", f"Out of scope ({why}): {listed(left)}"]
    return "\n".join([*lines, *details]) + "\n"


def listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def record_names() -> str:
    """The text of docs/pytorch_names.txt, from an installed torch."""
    import inspect
    import textwrap
    from types import ModuleType

    lines = ["# Public names of PyTorch 2.13, written by `python docs/coverage.py --names`."]
    for space in SPACES:
        target = import_module("torch").Tensor if space == "torch.Tensor" else import_module(space)
        listed = (
            [*getattr(target, "__all__", []), *dir(target)]
            if space == "torch"
            else (getattr(target, "__all__", None) or dir(target))
        )
        names = []
        for name in sorted(set(listed)):
            value = getattr(target, name, None)
            foreign = inspect.getmodule(value)
            outside = foreign is not None and not foreign.__name__.startswith("torch")
            plain = inspect.isfunction(value) or inspect.isclass(value)
            if not name.startswith("_") and not isinstance(value, ModuleType):
                if not (outside and plain):
                    names.append(name)
        lines += ["", f"[{space}]", *textwrap.wrap(" ".join(names), 99)]
    return "\n".join(lines) + "\n"


def main() -> None:
    if sys.argv[1:] == ["--names"]:
        NAMES.write_text(record_names(), "utf-8")
    elif not sys.argv[1:]:
        TABLE.write_text(table(), "utf-8")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()

"""Writes docs/coverage.md: which of PyTorch's public names the frontend has.

    python docs/coverage.py            write docs/coverage.md from docs/pytorch_names.txt
    python docs/coverage.py --names    write docs/pytorch_names.txt anew (needs torch)

A name is *done* where the frontend has it and a test names it. Those it has without are *present*.
Names that it has not, or that say themselves that they are planned, are *planned*, unless they
belong to something the project leaves out; those are listed with the reason.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
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
     r"SyncBatchNorm|convert_sync|skip_init|get_device_module|set_default_device|"
     r"get_default_device|Event|Stream|mtia|is_maia|is_mps|is_vulkan|is_meta|is_mtia",
     "other devices, several machines"),
    (r"sparse|csr|csc|bsr|bsc|coo|ccol|crow|col_indices|row_indices|coalesce|smm|spmm|hspmm|"
     r"hsmm|dsmm|saddmm|to_dense|SparseAdam|values_copy|^indices$|^values$|sspaddmm|"
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


def public_names() -> Iterator[tuple[str, list[str]]]:
    """(namespace, its names), as recorded."""
    space = ""
    names: dict[str, list[str]] = {}
    for line in NAMES.read_text("utf-8").splitlines():
        if line.startswith("["):
            space = line.strip("[]")
        elif line and not line.startswith("#"):
            names.setdefault(space, []).extend(line.split())
    yield from names.items()


def place(space: str) -> Any:
    """The frontend's object for one of PyTorch's namespaces."""
    if space == "torch.Tensor":
        return import_module("frontend").Tensor
    name = "frontend" + space.removeprefix("torch")
    return None if find_spec(name) is None else import_module(name)


def has(target: Any, name: str) -> bool:
    """Whether the frontend has a name, and not only what raises when it is used."""
    known = getattr(target, name, None)
    return hasattr(target, name) and not (hasattr(known, "planned") or hasattr(known, "absent"))


def tested() -> set[str]:
    """The names that code of the tests and examples reads, imports, or gives as strings, which
    parametrized tests do. Comments and docstrings count for nothing: they run nothing."""
    tested_names: set[str] = set()
    for folder in ("tests", "examples"):
        for path in (HERE.parent / folder).rglob("*.py"):
            tested_names.update(_read_names(ast.parse(path.read_text("utf-8"))))
    return tested_names


def _read_names(tree: ast.Module) -> Iterator[str]:
    statements = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    documentation = {id(node) for node in statements if isinstance(node, ast.Constant)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.name.rpartition(".")[2]
        elif isinstance(node, ast.Constant) and id(node) not in documentation:
            if isinstance(node.value, str):
                yield from re.findall(r"\w+", node.value)


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
| compiled | 100 % | 99.96 % | 100 % | 100 % | out of scope |

`chalf` is missing (eagerly), and of float64 six samples of Bessel functions differ, where
PyTorch's are coarser. Not counted is what PyTorch's tensors without data refuse too, because it
depends on values: `unique`, `unique_consecutive`, `nonzero`, `argwhere`, `masked_select`, `item`,
`allclose`, `equal`, `bincount`, `linalg.lstsq` by singular values, `narrow` and `tensor_split` at
a tensor, `repeat_interleave` without `output_size`, a bool mask as an index.""".splitlines()
"""What a run of tests/zoo/opdb.py gave."""


def table() -> str:
    """The text of docs/coverage.md."""
    lines = [
        "# What of PyTorch the frontend has", "",
        "Written by `python docs/coverage.py`; a test keeps it current. *Done*: the frontend has",
        "the name, with PyTorch's meaning, and the code of a test uses it. *Present*: it has the",
        "name, but no test does. *Planned*: not yet, or the name raises NotImplementedError. The",
        "rest is left out, with the reason. Names are those of PyTorch 2.13.", "",
        "Complex numbers, `fft`, and what changes the memory that a tensor has (`set_`,",
        "`view(dtype)`, `resize_` of an argument) run eagerly only: in a trace they raise",
        "TraceError.",
        "So does what has a result whose shape depends on the values of tensors. NumPy's LAPACK",
        "computes what `linalg` factors, in compiled code too.", "",
        *SAMPLES, "",
        "| namespace | done | present | planned | out of scope |", "|---|---|---|---|---|",
    ]  # fmt: skip
    details: list[str] = []
    words = tested()
    for space, names in public_names():
        target = place(space)
        there = [name for name in names if has(target, name)]
        done = [name for name in there if name in words]
        untested = [name for name in there if name not in words]
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

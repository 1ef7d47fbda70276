"""Targets: the processor code is made for, and its vector width.

In: a name, or the host. Out: a frozen `Target`. The width only decides how loops are cut into
vectors: vectors of any width run on any target, and results are the same bits. What runs natively
runs on the target it is given, else on that of the setting GRAPHC_TARGET (`running`).
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from graphc.config import target_name
from graphc.errors import TargetError
from graphc.ir.types import DType
from graphc.records import record, replace
from graphc.system import IMPORTING


@record
class Target:
    """`triple`, `cpu` and `features` are LLVM's; sizes are in bytes, caches those of one core."""

    name: str
    triple: str
    cpu: str
    features: str
    vector_bytes: int
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 1024 * 1024
    half_instructions: bool = False
    """The processor converts between f16 and f32."""
    permuted_lanes: int = 0
    """Lanes of i32 that one instruction takes from a register in any order; 0: there is none."""
    paired_products: bool = False
    """The processor adds the products of pairs of bf16, in less time than two FMAs take."""
    slow_pairs: bool = False
    """It adds them in more: FMAs on widened operands, which have the same bits, stand instead."""
    quad_products: bool = False
    """The processor adds the products of four u8 and four i8."""
    fma: str = "llvm.fma"
    """What computes a * b + c of f32, rounded once: see codegen/llvm/fma.py."""
    double_fma: str = "llvm.fma"
    """The same of f64: the C library's where the processor has none, which has it on most."""
    needs: tuple[str, ...] = ()
    """What a processor has to have to run it, by LLVM's names of features."""

    def lanes(self, dtype: DType) -> int:
        """Elements of `dtype` in one vector register."""
        return self.vector_bytes // dtype.itemsize

    @property
    def is_wasm(self) -> bool:
        """Whether its code runs in an engine of WebAssembly."""
        return self.triple.startswith("wasm")

    @property
    def is_windows(self) -> bool:
        """Whether its code is called as Windows calls functions."""
        return "windows" in self.triple

    @property
    def key(self) -> str:
        """What of the target generated code depends on."""
        return f"{self.triple} {self.cpu} {self.features}"


_X86 = "x86_64-unknown-linux-gnu"
_WINDOWS = "x86_64-pc-windows-gnu"
_V2 = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_NAMED = {
    target.name: target
    for target in (
        Target("x86-64-v2", _X86, "x86-64-v2", "", 16, fma="graphc.fma", needs=_V2),
        Target(
            "x86-64-v3", _X86, "x86-64-v3", "", 32,
            half_instructions=True, permuted_lanes=8, needs=_V3,
        ),
        Target(
            "x86-64-v4", _X86, "x86-64-v4", "", 64,
            half_instructions=True, permuted_lanes=16, needs=_V4,
        ),
        Target(
            "x86_64-windows", _WINDOWS, "x86-64-v3", "", 32,
            half_instructions=True, permuted_lanes=8, needs=_V3,
        ),
        Target(
            "aarch64", "aarch64-unknown-linux-gnu", "generic", "+neon", 16, half_instructions=True
        ),
        Target(
            "wasm32", "wasm32-unknown-unknown", "generic",
            "+simd128,+bulk-memory,+nontrapping-fptoint,+sign-ext,+mutable-globals", 16,
            fma="graphc.fma", double_fma="graphc.fma",
        ),
    )
}  # fmt: skip


_FAST_PAIRS = ("cooperlake", "znver")
"""How LLVM's names of the processors begin whose `vdpbf16ps` takes no more time than one FMA of the
same width. Since Sapphire Rapids Intel's take as much as four: their fast products of bf16 are
those of tiles (AMX), which round otherwise."""
_RELAXED = "llvm.wasm.relaxed.madd"
_EXTENSIONS: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "x86-64-v4": {
        "bf16": ("avx512bf16", {"paired_products": True}),
        "vnni": ("avx512vnni", {"quad_products": True}),
    },
    "wasm32": {"relaxed": ("relaxed-simd", dict.fromkeys(("fma", "double_fma"), _RELAXED))},
}
"""What a target may have besides: the name behind a `+`, the feature that LLVM knows, and what
changes with it."""


def named(name: str) -> Target:
    """A target by its name, whether or not this machine runs it; `x86-64-v4+bf16` is one with an
    extension, of which there may be several. Raises TargetError."""
    if name == "host":
        return host()
    if name in _NAMED:
        return _NAMED[name]
    base, *extensions = name.split("+")
    possible = _EXTENSIONS.get(base, {})
    if extensions and set(extensions) <= possible.keys():
        return _extended(base, tuple(each for each in possible if each in extensions))
    known = [*_NAMED, *(f"{base}+{each}" for base, each in _extensions())]
    raise TargetError(f"{name!r} is no known target", hint=f"one of host, {', '.join(known)}")


@functools.cache
def _extended(base: str, extensions: tuple[str, ...]) -> Target:
    target = _NAMED[base]
    for name in extensions:
        feature, changed = _EXTENSIONS[base][name]
        features = ",".join(filter(None, (target.features, f"+{feature}")))
        target = replace(
            target, name=f"{target.name}+{name}", features=features,
            needs=(*target.needs, feature), **changed,
        )  # fmt: skip
    return target


def _extensions() -> list[tuple[str, str]]:
    return [(base, name) for base, names in _EXTENSIONS.items() for name in names]


def running(target: Target | str | None = None) -> Target:
    """What native code of this process is made for: `target`, or that of the setting GRAPHC_TARGET
    where none is given. Raises TargetError where this machine cannot run it."""
    if target is None:
        target = target_name()
    if isinstance(target, str):
        target = named(target)
    lacking = _lacking(target)
    if lacking:
        possible = ", ".join(["host", *(each.name for each in executable())])
        raise TargetError(
            f"this machine cannot run code for {target.name}: {lacking}", hint=f"one of {possible}"
        )
    return target


@functools.cache
def executable() -> tuple[Target, ...]:
    """The named targets whose code this machine runs."""
    extended = (_extended(base, (name,)) for base, name in _extensions())
    targets = (*_NAMED.values(), *extended)
    return tuple(target for target in targets if not _lacking(target))


@functools.cache
def _lacking(target: Target) -> str:
    """What this machine lacks to run code for a target; empty where it runs."""
    machine, own = target.triple.partition("-")[0], host().triple.partition("-")[0]
    if machine != own:
        return f"it is {own}, not {machine}"
    if target.is_windows != host().is_windows:
        return f"it is {host().triple}, not {target.triple}"
    if not target.needs:
        return ""
    with IMPORTING:
        from llvmlite import binding

    features = binding.get_host_cpu_features()
    missing = [name for name in target.needs if not features.get(name)]
    return f"its processor has no {', '.join(missing)}" if missing else ""


@functools.cache
def host() -> Target:
    """This processor, with the widest vectors it has."""
    with IMPORTING:
        from llvmlite import binding

    features = binding.get_host_cpu_features()
    # By feature, not by name: virtual machines hide features of the processor they report.
    if features.get("avx512f"):
        width = 64
    elif features.get("avx2") and features.get("fma"):
        width = 32
    else:
        width = 16
    triple, cpu = binding.get_process_triple(), binding.get_host_cpu_name()
    has_pairs = width == 64 and bool(features.get("avx512bf16"))
    fast = cpu.startswith(_FAST_PAIRS)
    computes = triple.startswith("x86_64") and not features.get("fma")
    return Target(
        "host",
        triple,
        cpu,
        features.flatten(),
        width,
        _cache_bytes(1, "Data", 32 * 1024),
        _cache_bytes(2, "Unified", 1024 * 1024),
        bool(features.get("f16c")) or triple.startswith("aarch64"),
        width // 4 if width > 16 else 0,
        paired_products=has_pairs and fast,
        slow_pairs=has_pairs and not fast,
        quad_products=width == 64 and bool(features.get("avx512vnni")),
        fma="graphc.fma" if computes else "llvm.fma",
    )


def llvm_version() -> str:
    """The version of LLVM that makes native code."""
    with IMPORTING:
        from llvmlite import binding

    return ".".join(map(str, binding.llvm_version_info))


def _cache_bytes(level: int, kind: str, fallback: int) -> int:
    """Size of a cache of the first core where Linux tells it, else a common one."""
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            cache = (entry / "level").read_text().strip(), (entry / "type").read_text().strip()
            size = (entry / "size").read_text().strip()
        except OSError:
            continue
        if cache == (str(level), kind) and size.endswith("K"):
            return int(size[:-1]) * 1024
    return fallback

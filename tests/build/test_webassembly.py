"""Modules of WebAssembly: what they are made of, what is refused, and, where there is node, that
they have the bits of this process."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import frontend as torch
from graphc.build.javascript import extent_text
from graphc.build.wasm_module import (
    FROM_JAVASCRIPT,
    MEMORY,
    PROBE,
    STACK,
    module_of,
    probe,
    sections_of,
)
from graphc.codegen.llvm.native import compile_text
from graphc.codegen.target import host, named
from graphc.errors import ArgumentError, LoweringError
from graphc.ir.dims import dim
from tests.build.conftest import Built
from tests.build.loaded import functions_of

TARGETS = ("wasm32", "wasm32+relaxed")


def names_in(body: bytes, skipped: int) -> set[str]:
    """All runs of letters, digits and underscores of a section that are longer than a few."""
    return {text.decode() for text in re.findall(rb"[A-Za-z_]\w{%d,}" % skipped, body)}


@pytest.mark.parametrize("target", TARGETS)
def test_a_module_has_what_stands_in_a_list(built: Built, target: str) -> None:
    code = (built("inference", target) / "inference.wasm").read_bytes()
    sections = list(sections_of(code))
    kinds = [kind for kind, _ in sections]
    assert kinds == sorted(set(kinds), key=[1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 11].index)
    assert 0 not in kinds, "custom sections are left out"
    contents = dict(sections)
    imported = names_in(contents[2], 3)
    assert {MEMORY, STACK} <= imported <= {MEMORY, STACK} | FROM_JAVASCRIPT
    assert names_in(contents[7], 3) == {
        "inference", "inference_init", "inference_save", "inference_prepare",
        "inference_work_bytes", "inference_error",
    }  # fmt: skip
    assert b"relaxed" not in code  # no name of a feature is left


def test_files_beside_a_module(built: Built) -> None:
    folder = built("inference", "wasm32")
    files = {path.name for path in folder.iterdir()}
    assert files == {
        "inference.wasm", "inference.mjs", "inference.safetensors", "main.mjs", "main.data",
    }  # fmt: skip
    script = (folder / "inference.mjs").read_text()
    assert 'shape: (n) => [0 + 1 * n["batch"], 64]' in script and "@" not in script
    relaxed = (built("inference", "wasm32+relaxed") / "inference.mjs").read_text()
    assert "does not round once here" in relaxed and "does not round once" not in script


def test_the_probe_tells_one_rounding_from_two() -> None:
    """The same text, with an fma of this machine and with a product and a sum."""
    intrinsic = r"call <(\d) x (\w+)> @llvm.wasm.relaxed.madd.v\df\d\d\((.*?)\)"

    def apart(match: re.Match[str]) -> str:
        return f"call <{match[1]} x {match[2]}> @apart{match[1]}({match[3]})"

    rounded = "".join(
        f"""
define <{n} x {of}> @apart{n}(<{n} x {of}> %a, <{n} x {of}> %b, <{n} x {of}> %c) noinline {{
  %p = fmul <{n} x {of}> %a, %b
  %s = fadd <{n} x {of}> %p, %c
  ret <{n} x {of}> %s
}}"""
        for n, of in ((4, "float"), (2, "double"))
    )
    two = re.sub(intrinsic, apart, PROBE, flags=re.DOTALL)
    two = "\n".join(line for line in two.splitlines() if "declare" not in line) + rounded
    answers = []
    for text in (PROBE.replace("llvm.wasm.relaxed.madd", "llvm.fma"), two):
        address = functions_of(compile_text(text, host()), ["fused"])["fused"]
        answers.append(ctypes.CFUNCTYPE(ctypes.c_int32)(address)())
    assert answers == [1, 0]
    assert [kind for kind, _ in sections_of(probe())][-1] == 10


def test_extents_as_javascript() -> None:
    text = extent_text((2 * dim("n") + 3) // 4 - dim("m"))
    assert 'n["n"]' in text and 'n["m"]' in text and "Math.floor((" in text
    python = re.sub(r'n\["(.*?)"\]', lambda match: {"n": "7", "m": "2"}[match[1]], text)
    assert eval(python.replace("Math.floor", "int")) == (2 * 7 + 3) // 4 - 2


# -- refusals --------------------------------------------------------------------------------------


def refused(tmp_path: Path, message: str, error: type[Exception], **options: object) -> None:
    function = torch.compile(lambda x: x * 2.0, dynamic={"x": {0: "n"}})
    with pytest.raises(error, match=message):
        function.build(tmp_path / "out", torch.ones(3, 2), name="twice", **options)
    assert not (tmp_path / "out").exists()


def test_what_webassembly_does_not_have_is_refused_by_name(tmp_path: Path) -> None:
    wasm = {"target": "wasm32"}
    refused(tmp_path, "wasm32 has no threads", ArgumentError, threads=2, **wasm)
    refused(tmp_path, "a wheel is not built for wasm32", ArgumentError, kind="wheel", **wasm)
    refused(tmp_path, "a page runs WebAssembly", ArgumentError, kind="page", target="aarch64")
    refused(tmp_path, "a page runs on one thread", ArgumentError, kind="page", threads=2)
    wrong = [np.ones((5, 3), np.float32)]
    refused(tmp_path, "data for x are", ArgumentError, kind="page", data=wrong)
    refused(tmp_path, "data are 1 arrays, not 2", ArgumentError, kind="page", data=wrong * 2)
    inverse = torch.compile(torch.linalg.inv)
    with pytest.raises(LoweringError, match="is computed by Python"):
        inverse.build(tmp_path / "out", torch.eye(3), name="inverse", **wasm)
    power = torch.compile(lambda x, t: x * 0.9**t)
    with pytest.raises(LoweringError, match="pow of the C library has other bits in JavaScript"):
        power.build(tmp_path / "out", torch.ones(3), 2.0, name="power", **wasm)
    assert not (tmp_path / "out").exists()


def test_an_object_that_needs_more_is_no_module() -> None:
    text = "declare void @other()\ndefine void @f() {\n  call void @other()\n  ret void\n}"
    with pytest.raises(LoweringError, match="other of the C library"):
        module_of(compile_text(text, named("wasm32")), ["f"])
    with pytest.raises(LoweringError, match="no WebAssembly"):
        module_of(b"\x7fELF\1\1\1\0", ["f"])


# -- a page ----------------------------------------------------------------------------------------


def test_a_page_is_one_file_that_asks_for_nothing(tmp_path: Path) -> None:
    function = torch.compile(lambda x: x.relu(), dynamic={"x": {0: "n"}})
    made = function.build(tmp_path, torch.randn(4, 3), kind="page", name="rectified")
    (path,) = made.files
    assert path.name == "rectified.html"
    text = path.read_text()
    assert text.count("<script>") == 1 and not re.search(r"\bsrc=|https?:|import\b|fetch\(", text)
    assert "default-src 'none'" in text and "'wasm-unsafe-eval'" in text and "@SCRIPT@" not in text


# -- node ------------------------------------------------------------------------------------------


@cache
def node() -> str | None:
    return shutil.which("node")


def runs(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(node()), *arguments], cwd=folder, capture_output=True, text=True, timeout=600
    )


@cache
def flags_for_relaxed() -> tuple[str, ...] | None:
    """What node takes to know relaxed_madd; None where it does not."""
    listed = ",".join(map(str, probe()))
    asks = f"process.exit(WebAssembly.validate(new Uint8Array([{listed}])) ? 0 : 1)"
    for flags in ((), ("--experimental-wasm-relaxed-simd",)):
        if runs(*flags, "-e", asks, folder=Path.cwd()).returncode == 0:
            return flags
    return None


SLOW = [
    ("mlp", "wasm32"), ("lstm", "wasm32"), ("dropout", "wasm32"),
    ("mlp", "wasm32+relaxed"), ("gpt", "wasm32+relaxed"),
]  # fmt: skip
"""The browser (tests/debug/browser) runs all models with relaxed_madd, digits without it too."""


@pytest.mark.parametrize(
    ("name", "target"),
    [("inference", "wasm32"), ("inference", "wasm32+relaxed"),
     *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW)],
)  # fmt: skip
def test_node_proves_the_bits(built: Built, name: str, target: str) -> None:
    if node() is None:
        pytest.skip("needs node")
    flags = flags_for_relaxed() if target != "wasm32" else ()
    if flags is None:
        pytest.skip("this node has no relaxed_madd")
    ran = runs(*flags, "main.mjs", folder=built(name, target))
    assert (ran.returncode, ran.stdout) == (0, "the same bits\n"), ran.stderr


def test_other_data_and_refusals_are_told_in_node(built: Built) -> None:
    if node() is None:
        pytest.skip("needs node")
    folder = built("inference", "wasm32")
    data = (folder / "main.data").read_bytes()
    (folder / "main.data").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    ran = runs("main.mjs", folder=folder)
    (folder / "main.data").write_bytes(data)
    assert (ran.returncode, ran.stdout) == (1, "other bits\n") and " differs" in ran.stderr
    script = """
import { readFileSync } from "node:fs";
import { built } from "./inference.mjs";
const bytes = (name) => new Uint8Array(readFileSync(name));
const step = await built(bytes("inference.wasm"));
const told = (f) => { try { f(); } catch (error) { console.log(error.message); } };
told(() => step.init(bytes("main.mjs")));
step.init(bytes("inference.safetensors"));
told(() => step.call({ batch: -1 }, new Float32Array(0)));
told(() => step.call({ batch: 2 }, new Float32Array(64)));
told(() => step.call({ batch: 1 }, new Float64Array(64)));
const [many] = step.call({ batch: 70000 }, new Float32Array(70000 * 64).fill(1));
const [one] = step.call({ batch: 1 }, new Float32Array(64).fill(1));
console.log(many.length, many[699999] === one[9], step.memory.buffer.byteLength > 16e6);
step.init(step.toBytes());
console.log(step.call({ batch: 1 }, new Float32Array(64).fill(1))[0][9] === one[9]);
"""
    (folder / "more.mjs").write_text(script)
    ran = runs("more.mjs", folder=folder)
    assert ran.stdout.splitlines() == [
        "the bytes are not those of a safetensors file", "size batch is -1, not in 0 upward",
        "input has 64 elements, not 128", "input is not of F32", "700000 true true", "true",
    ], ran.stderr  # fmt: skip

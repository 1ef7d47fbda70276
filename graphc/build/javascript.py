"""Modules of WebAssembly for JavaScript: what loads one, and the program that proves its bits.

in : a source, its programs, the layout of its state, and the module
out: NAME.mjs, main.mjs; or the tables, for a page
"""

from __future__ import annotations

import base64
import json
import re
from importlib.resources import files
from typing import Any

from graphc.build.built_programs import BuiltPrograms
from graphc.build.built_source import ObjectSource
from graphc.build.entry_points import exported_names
from graphc.build.header import CSignature
from graphc.build.object_file import object_code
from graphc.build.proof import Proof
from graphc.build.state_layout import FILE_TYPES, StateLayout
from graphc.build.wasm_module import WasmModule, module_of, probe
from graphc.codegen.target import Target
from graphc.config import VERSION
from graphc.ir.dims import Dim, Extent, Symbol, ordered_terms
from graphc.ir.types import TensorType


def loader() -> str:
    """The script that loads modules."""
    return (files("graphc.build") / "loader.js").read_text("utf-8")


def wasm_module(
    name: str, source: ObjectSource, built: BuiltPrograms, layout: StateLayout, target: Target
) -> WasmModule:
    """The module of these programs. Its state comes from a file alone."""
    code = object_code(name, source, built, layout, target, embeds=False)
    return module_of(code, exported_names(name, packs=bool(built.ahead)))


def tables_text(
    name: str, source: ObjectSource, built: BuiltPrograms, layout: StateLayout, data_end: int
) -> str:
    """What the loader has to know of a module, as an expression of JavaScript."""
    signature = CSignature(name, source, built)
    fields = [
        {
            "name": m.name, "key": m.field.key, "type": FILE_TYPES[m.type.dtype],
            "shape": m.type.shape, "offset": m.offset, "packed": m.is_packed,
        }
        for m in layout.members
    ]  # fmt: skip
    arguments = []
    for number, label in enumerate(signature.arguments):
        type = signature.types.get(number)
        kind = FILE_TYPES[TensorType.of(source.arrays[number]).dtype]
        shape = "null" if type is None else _shape(type)
        facts = {"name": label, "type": kind, "written": number in signature.updated}
        arguments.append(f"{{ ...{json_text(facts)}, shape: {shape} }}")
    results = [
        f"{{ type: {json_text(FILE_TYPES[type.dtype])}, shape: {_shape(type)} }}"
        for type in signature.result_types
    ]
    sizes = [symbol.name for symbol in source.sizes]
    return (
        f"{{ name: {json_text(name)}, layout: {json_text(str(layout.digest))}, "
        f"stateBytes: {layout.nbytes}, dataEnd: {data_end},\n"
        f"  sizes: {json_text(sizes)}, numbers: {json_text(source.floats)},\n"
        f"  arguments: [{', '.join(arguments)}],\n  results: [{', '.join(results)}],\n"
        f"  fields: {json_text(fields)} }}"
    )


def calls_text(proof: Proof) -> str:
    """The calls of a proof, whose data stand beside."""
    rows = [
        {"sizes": dict(call.sizes), "counts": [array.size for array in call.before]}
        for call in proof.calls
    ]
    return json_text(rows)


def module_text(name: str, tables: str, is_relaxed: bool) -> str:
    """NAME.mjs. A module that takes relaxed_madd asks for it."""
    asked = base64.b64encode(probe()).decode()
    check = (
        [
            f'  if (!fused(Uint8Array.from(atob("{asked}"), (c) => c.charCodeAt(0))))',
            '    throw new Error("relaxed_madd does not round once here: take the target wasm32");',
        ]
        if is_relaxed
        else []
    )
    lines = [
        f"// {name}, built by graphc {VERSION}: `const step = await built(bytes)` of {name}.wasm, "
        "`step.init(file)` of a",
        "// safetensors file, `step.call(sizes, ...arrays)`, `step.field(name)`, `step.toBytes()`.",
        loader(),
        f"const TABLES = {tables};",
        "",
        "async function built(code) {",
        *check,
        "  return load(code, TABLES);",
        "}",
        "",
        "export { built, differences };",
        "",
    ]
    return "\n".join(lines)


def main_text(name: str, proof: Proof) -> str:
    """main.mjs, for node."""
    text = (files("graphc.build") / "main.mjs").read_text("utf-8")
    filled = {"NAME": name, "COUNT": str(len(proof.calls)), "CALLS": calls_text(proof)}
    return re.sub(f"@({'|'.join(filled)})@", lambda match: filled[match[1]], text)


def _shape(type: TensorType) -> str:
    extents = ", ".join(extent_text(extent) for extent in type.shape)
    return f"(n) => [{extents}]"


def extent_text(extent: Extent) -> str:
    """An extent as an expression of JavaScript, sizes by name in `n`."""
    if not isinstance(extent, Dim):
        return str(extent)
    terms = [str(extent.constant)]
    for monomial, coefficient in ordered_terms(extent):
        factors = [str(coefficient)]
        for factor in monomial:
            if isinstance(factor, Symbol):
                factors.append(f"n[{json_text(factor.name)}]")
            else:
                above, below = extent_text(factor.dividend), extent_text(factor.divisor)
                factors.append(f"Math.floor(({above}) / ({below}))")
        terms.append(" * ".join(factors))
    return " + ".join(terms)


def json_text(content: Any) -> str:
    """JSON that may stand in a page's script: no name ends it."""
    return json.dumps(content, ensure_ascii=True).replace("<", "\\u003c")

"""Writes the table of docs/onnx.md: which of ONNX's operators the importer has.

    python docs/onnx_coverage.py     (needs the package onnx)

An operator is *here* where it is declared, *made of others* where ONNX's own schema has a body that
is, and else listed with the reason. Attributes and inputs of any version of an operator's schema
that its declaration does not take are listed too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import onnx

from frontend.onnx.exporting.export import GREATEST_OPSET
from frontend.onnx.exporting.ops import declared_ops, rule_of
from frontend.onnx.importing.control import CONTROL
from frontend.onnx.importing.ops import all_declared, declared
from graphc.ir.registry import all_ops

UNWRITTEN = "not written yet"
PAGE = Path(__file__).with_name("onnx.md")
START, END = "<!-- table: onnx operators -->\n", "<!-- end -->\n"

REASONS = (
    ("Sequence", "sequences of tensors"), ("ConcatFromSequence", "sequences of tensors"),
    ("SplitToSequence", "sequences of tensors"), ("Optional", "optional values"),
    ("String", "strings"), ("Regex", "strings"), ("TfIdf", "strings"),
    ("ImageDecoder", "files of images"), ("CategoryMapper", "strings"),
    ("CastMap", "maps"), ("DictVectorizer", "maps"), ("ZipMap", "maps"),
    ("Gradient", "`backward()` gives gradients"),
)  # fmt: skip
"""By how a name begins: why an operator is not here."""


def _reason(name: str) -> str:
    return next((why for start, why in REASONS if name.startswith(start)), UNWRITTEN)


def _versions() -> dict[tuple[str, str], list[Any]]:
    schemas: dict[tuple[str, str], list[Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        schemas.setdefault((schema.domain, schema.name), []).append(schema)
    return schemas


def _untaken(domain: str, name: str, schemas: list[Any]) -> list[str]:
    """What schemas have and the declarations that hold for them do not take."""
    missing = set()
    for schema in schemas:
        op = declared(domain, name, schema.since_version)
        if op is None:
            missing.add(f"version {schema.since_version}")
            continue
        known = set(op.attributes) | {each.name for each in op.inputs}
        missing |= {f"`{attribute}`" for attribute in schema.attributes if attribute not in known}
        inputs = len(schema.inputs)
        if op.variadic is None and inputs > len(op.inputs):
            missing.add(f"input {inputs}")
    return sorted(missing)


def table() -> str:
    """The table's text."""
    here, made, absent, partly = [], [], [], []
    for (domain, name), schemas in sorted(_versions().items()):
        newest = max(schemas, key=lambda schema: schema.since_version)
        if newest.deprecated and not any(declared(domain, name, s.since_version) for s in schemas):
            continue
        shown = f"{domain}.{name}" if domain else name
        if (
            (not domain and name in (*CONTROL, "Constant"))
            or declared(domain, name, newest.since_version)
            or newest.deprecated
        ):
            here.append(shown)
            if name not in (*CONTROL, "Constant"):
                untaken = _untaken(domain, name, schemas)
                if untaken:
                    partly.append((shown, ", ".join(untaken)))
        elif _reason(name) != UNWRITTEN:
            absent.append((shown, _reason(name)))
        elif newest.has_function or newest.has_context_dependent_function:
            made.append(shown)
        else:
            absent.append((shown, UNWRITTEN))
    lines = [
        f"ONNX {onnx.__version__}: {len(here)} operators are here, in {len(all_declared())} "
        f"declarations; {len(made)} more are made of them by ONNX's own bodies: {', '.join(made)}.",
        "", "| not here | why |", "|---|---|",
        *(f"| {name} | {why} |" for name, why in absent),
        "", "| here, but not all of it | not taken |", "|---|---|",
        *(f"| {name} | {what} |" for name, what in partly), "",
    ]  # fmt: skip
    return "\n".join([*lines, *_unwritten(), ""])


def _unwritten() -> list[str]:
    """The ops of graphs that cannot be exported: neither an operator nor made of ops that have."""
    names = [
        op.name
        for op in all_ops()
        if rule_of(op.name, GREATEST_OPSET) is None and op.kind not in ("composite", "host")
    ]
    hosts = [op.name for op in all_ops() if op.kind == "host" and rule_of(op.name, 20) is None]
    return [
        f"Out: {len(declared_ops())} ops of graphs have operators, composites besides. These have "
        f"none: {', '.join(sorted(names))}; and of those that call LAPACK or NumPy "
        f"{', '.join(sorted(hosts))}.",
        "",
    ]


def page() -> str:
    """docs/onnx.md with the table of today."""
    text = PAGE.read_text("utf-8")
    head, rest = text.split(START)
    return head + START + table() + END + rest.split(END)[1]


if __name__ == "__main__":
    sys.exit(PAGE.write_text(page(), "utf-8") and 0)

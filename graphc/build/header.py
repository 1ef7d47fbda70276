"""The C header of an object: the struct of its state, its functions, and what they mean."""

from __future__ import annotations

from graphc.build.built_programs import BuiltPrograms
from graphc.build.built_source import ObjectSource
from graphc.build.identifiers import Identifiers
from graphc.build.packed_weights import SAMPLES
from graphc.build.state_layout import C_TYPES, PREPARED, VERSION, StateLayout
from graphc.codegen.target import Target
from graphc.ir.types import TensorType


class CSignature:
    """The C parameters of a built function. Identifiers are those of the header."""

    def __init__(self, name: str, source: ObjectSource, built: BuiltPrograms):
        names = Identifiers(frozenset((name, f"{name}_state", "state", "work")))
        self.name = name
        self.sizes = [names.of(symbol.name) for symbol in source.sizes]
        self.floats = [names.of(each) for each in source.floats]
        self.arguments = [names.of(each) for each in source.arguments]
        count = len(built.results)
        labels = ["result"] if count == 1 else [f"result{i}" for i in range(count)]
        self.results = [names.of(each) for each in labels]
        self.types = built.argument_types
        self.result_types = built.results
        self.updated, self.updates_state = built.updated

    @property
    def size_parameters(self) -> list[str]:
        """Those that say how large a call is."""
        return [*(f"int64_t {n}" for n in self.sizes), *(f"double {n}" for n in self.floats)]

    @property
    def call(self) -> list[str]:
        """All parameters of a call, each with what it is."""
        const = "" if self.updates_state else "const "
        lines = [f"{const}{self.name}_state *state", *self.size_parameters]
        for number, name in enumerate(self.arguments):
            type = self.types.get(number)
            if type is None:
                lines.append(f"const void *{name} /* not read */")
                continue
            const = "" if number in self.updated else "const "
            lines.append(f"{const}{C_TYPES[type.dtype]} *{name} /* {_shape(type)} */")
        for name, type in zip(self.results, self.result_types):
            lines.append(f"{C_TYPES[type.dtype]} *{name} /* {_shape(type)} */")
        return [*lines, "void *work"]


def header_text(
    name: str, source: ObjectSource, built: BuiltPrograms, layout: StateLayout, target: Target,
    embeds: bool,
) -> str:  # fmt: skip
    """The text of the header."""
    guard, align = f"{name.upper()}_H", f"{name.upper()}_ALIGNED"
    signature = CSignature(name, source, built)
    lines = [
        f"/* {name}: one object file, made by graphc for {target.name}. It allocates nothing, has",
        "   no locks and no global state: threads may call it at once, each with a state and a",
        "   work block of its own. Memory of different parameters must not overlap. */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "#ifdef __cplusplus",
        f"#define {align} alignas(64)",
        'extern "C" {',
        "#else",
        f"#define {align} _Alignas(64)",
        "#endif",
        "",
        f"/* The layout of {name}_state, version {VERSION} of this interface. */",
        f"#define {name.upper()}_LAYOUT INT64_C({layout.digest})",
        "",
        f"/* All that lasts from call to call. Copy it as you like; {name}_init fills it. It",
        "   begins at a multiple of 64 bytes. */",
        *_struct(name, layout, align),
        "",
        *_files(name, embeds),
        *_prepared(name, built),
        "/* Bytes of memory that a call works in, at any address; nothing is kept there. -1 for",
        "   sizes that a call refuses. */",
        f"int64_t {name}_work_bytes({', '.join(signature.size_parameters) or 'void'});",
        "",
        *_about(source, built, signature),
        f"int64_t {name}({_wrapped(signature.call)});",
        "",
        *_parted(name, built, signature),
        "/* The text of a status, cut to `size` bytes with a 0 at its end; its length. `work` is",
        "   that of the call, or NULL. */",
        f"int64_t {name}_error(int64_t status, const void *work, char *buffer, int64_t size);",
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "#endif",
        "",
    ]
    return "\n".join(lines)


def _files(name: str, embeds: bool) -> list[str]:
    """The functions that read a state and write it."""
    initial = "The object has no values of its own: `file` must not be NULL."
    if embeds:
        initial = "With `file` NULL they are those it was built with."
    return [
        f"/* Fills a state from the `size` bytes of a safetensors file: {name}.safetensors is one.",
        f"   {initial} `layout` is {name.upper()}_LAYOUT.",
        f"   0, or a status that {name}_error explains; then the state is as it was. */",
        f"int64_t {name}_init(",
        f"    {name}_state *state, const void *file, int64_t size, int64_t layout);",
        "",
        "/* Writes the state as the bytes of a safetensors file, where `size` is enough for them,",
        f"   and gives how many they are. -1 for a state that {name}_init of this object has not",
        "   filled. */",
        f"int64_t {name}_save(const {name}_state *state, void *file, int64_t size);",
        "",
    ]


def _prepared(name: str, built: BuiltPrograms) -> list[str]:
    """The function that packs weights."""
    if not built.ahead:
        return []
    return [
        f"/* Packs weights as calls read them, into the state, as {name}_init does. To be called",
        "   when fields that say so were written, ahead of the next call, and while none runs. A",
        f"   call looks at {SAMPLES} words of each such field, its first and last among them, and",
        "   refuses where one has changed; of other changes it knows nothing, and reads what was",
        "   packed before. */",
        f"int64_t {name}_prepare({name}_state *state);",
        "",
    ]


def _parted(name: str, built: BuiltPrograms, signature: CSignature) -> list[str]:
    """The function for threads that the caller brings."""
    if built.threads == 1:
        return []
    team = ["int64_t thread", "int64_t threads", "int64_t *counter"]
    return [
        f"/* The same on {name.upper()}_THREADS threads of the caller's, or on one: each calls",
        "   it with its number from 0 on. `counter` is one for all, 0 before each. The call is",
        "   over when all have returned; its status is that of thread 0. */",
        f"#define {name.upper()}_THREADS {built.threads}",
        f"int64_t {name}_part({_wrapped([*signature.call, *team])});",
        "",
    ]


def _struct(name: str, layout: StateLayout, align: str) -> list[str]:
    lines = ["typedef struct {", "  uint64_t graphc_version;", "  int64_t graphc_layout;"]
    for member in layout.members:
        about = member.field.key if member.field.key != member.name else ""
        packed = f"read packed: {name}_prepare" if member.is_packed else ""
        about = "; ".join(text for text in (about, member.field.note, packed) if text)
        if not member.nbytes:
            lines.append(f"  /* {_plain(member.field.key)} has no elements */")
            continue
        extents = "".join(f"[{extent}]" for extent in member.type.shape)
        comment = f"  /* {_plain(about)} */" if about else ""
        kind = C_TYPES[member.type.dtype]
        if member.type.dtype.value in ("f16", "bf16"):
            comment = f"  /* bits of {member.type.dtype.value} */" + comment
        lines.append(f"  {align} {kind} {member.name}{extents};{comment}")
    if layout.prepared_bytes:
        size = layout.prepared_bytes
        lines.append(f"  {align} uint8_t {PREPARED}[{size}];  /* of {name}_prepare */")
    if not any(member.nbytes for member in layout.members):
        lines[1] = f"  {align} uint64_t graphc_version;"
    lines += [
        f"}} {name}_state;",
        "#ifdef __cplusplus",
        f'static_assert(sizeof({name}_state) == {layout.nbytes}, "layout");',
        "#else",
        f'_Static_assert(sizeof({name}_state) == {layout.nbytes}, "layout");',
        "#endif",
    ]
    return lines


def _about(source: ObjectSource, built: BuiltPrograms, signature: CSignature) -> list[str]:
    """What stands above the call."""
    lines = [
        f"/* 0, or a status that {signature.name}_error explains; then the state is as it was."
    ]
    for symbol, name in zip(source.sizes, signature.sizes):
        most = "upward" if symbol.most is None else f"to {symbol.most}"
        lines.append(f"   {name}: from {symbol.least} {most}.")
    lines += [f"   Refused: {_plain(text)}" for text in built.refused]
    lines[-1] += " */"
    return lines


def _shape(type: TensorType) -> str:
    """The extents of an array, as C writes them."""
    return _plain("".join(f"[{extent}]" for extent in type.shape)) or "one"


def _plain(text: str) -> str:
    """A text that ends no comment, on one line."""
    return " ".join(text.replace("*/", "* /").replace("/*", "/ *").split()).replace("??", "? ?")


def _wrapped(parameters: list[str]) -> str:
    return "\n    " + ",\n    ".join(parameters)

"""The C program that proves the bits: calls of different sizes, and what they gave here.

in : a source and its programs
out: main.c, and a file of data beside it: arguments, results, and the state behind the last call
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graphc.build.built_programs import BuiltProgram, BuiltPrograms
from graphc.build.built_source import Array, ObjectSource, OfArgument, OfResult, OfState
from graphc.build.header import CSignature
from graphc.build.number_text import double_text
from graphc.build.state_layout import C_TYPES, PREPARED, StateLayout, bytes_of
from graphc.ir.instances import type_at
from graphc.ir.size_floats import value_at
from graphc.ir.types import TensorType
from graphc.records import record

CALLS = 3


@record
class ProvenCall:
    """One call: sizes and numbers, arguments ahead of it, and arguments and results behind it."""

    sizes: Mapping[str, Any]
    before: tuple[Array, ...]
    after: tuple[Array, ...]
    results: tuple[Array, ...]


@record
class Proof:
    """Calls in a row, and the state behind them by label."""

    calls: tuple[ProvenCall, ...]
    state: Mapping[str, Array]


def proven(source: ObjectSource, built: BuiltPrograms, count: int = CALLS) -> Proof:
    """Runs the graphs in this process, on copies of the state."""
    from graphc.runtime.compile import compile

    state = {field.label: np.array(field.array) for field in source.state()}
    for each in built.ahead:
        packed = compile(each.source.graph, source.level, threads=1)
        places = (place for place in each.source.inputs if isinstance(place, OfState))
        values = packed(*(state[place.label] for place in places))
        for at, value in zip(each.source.outputs, values, strict=True):
            assert isinstance(at, OfState)
            state[at.label] = value
    executables: dict[int, Any] = {}
    calls = []
    for number, sizes in enumerate(_sizes_of_calls(source, built, count)):
        program = built.serving(sizes)
        assert program is not None, "a program serves it"
        if id(program) not in executables:
            graph, example = program.source.graph, dict(program.native.plan.example)
            executables[id(program)] = compile(
                graph, source.level, threads=1, example=example or None
            )
        arguments = _arguments(source, built, sizes, number)
        before = tuple(np.array(array) for array in arguments)
        results = _run(program, executables[id(program)], arguments, state, sizes)
        calls.append(ProvenCall(sizes, before, tuple(arguments), results))
    return Proof(tuple(calls), state)


def _run(
    program: BuiltProgram, executable: Any, arguments: list[Array], state: dict[str, Array],
    sizes: Mapping[str, Any],
) -> tuple[Array, ...]:  # fmt: skip
    """One call, which updates arguments and state; its results."""
    graph = program.source.graph
    arrays: list[Array] = []
    for place, type in zip(program.source.inputs, graph.input_types):
        if isinstance(place, OfArgument):
            arrays.append(arguments[place.position])
        elif isinstance(place, OfState):
            arrays.append(state[place.label])
        else:
            value = value_at(place.expression, sizes)
            arrays.append(np.asarray(value).astype(type.dtype.numpy))
    outputs = executable(*arrays)
    results: list[Array] = []
    for target, output in zip(program.source.outputs, outputs):
        if isinstance(target, OfResult):
            results.append(output)
        elif isinstance(target, OfState):
            state[target.label][...] = output
    return tuple(results)


def _sizes_of_calls(
    source: ObjectSource, built: BuiltPrograms, count: int
) -> Iterator[Mapping[str, Any]]:
    """Sizes of calls, as different ones as there are."""
    seen: list[dict[str, Any]] = []
    for change in (lambda n: n, lambda n: n // 2 + 1, lambda n: 1, lambda n: 2 * n + 1,
                   lambda n: 3, lambda n: n + 7, lambda n: 5 * n + 2, lambda n: 0):  # fmt: skip
        sizes = dict(source.example)
        for symbol in source.sizes:
            most = np.inf if symbol.most is None else symbol.most
            sizes[symbol.name] = int(max(symbol.least, min(change(sizes[symbol.name]), most)))
        if sizes not in seen and built.serving(sizes) is not None:
            seen.append(sizes)
    for number in range(count):
        yield seen[number % len(seen)]


def _arguments(
    source: ObjectSource, built: BuiltPrograms, sizes: Mapping[str, Any], number: int
) -> list[Array]:
    """Arguments of these sizes: elements of the example's, drawn; so labels stay in their range."""
    generator = np.random.default_rng(number)
    arrays = []
    for position, example in enumerate(source.arrays):
        type = built.argument_types.get(position)
        shape = example.shape if type is None else type_at(type, sizes).shape
        pool = example.reshape(-1)
        if pool.size:
            arrays.append(generator.choice(pool, shape).astype(pool.dtype))
        else:
            arrays.append(np.zeros(shape, pool.dtype))
    return arrays


# -- files -----------------------------------------------------------------------------------------


def data_of(proof: Proof, layout: StateLayout) -> bytes:
    """What main.c reads: for each call arguments ahead, arguments behind, results; the state."""
    parts = []
    for call in proof.calls:
        parts += [bytes_of(array) for array in (*call.before, *call.after, *call.results)]
    parts += [bytes_of(proof.state[member.field.label]) for member in layout.members]
    return b"".join(parts)


def main_text(
    name: str, source: ObjectSource, built: BuiltPrograms, layout: StateLayout, proof: Proof,
    embeds: bool,
) -> str:  # fmt: skip
    """The text of main.c."""
    signature = CSignature(name, source, built)
    calls = [
        _call(signature, source, number, call, built.threads)
        for number, call in enumerate(proof.calls)
    ]
    library = " -pthread" if built.threads > 1 else ""
    lines = [
        f"/* Runs {name} {len(proof.calls)} times and compares every bit of results and state with",
        f"   what the process had that built it: cc main.c {name}.o -lm{library} && ./a.out */",
        f'#include "{name}.h"',
        *(["#include <pthread.h>"] if built.threads > 1 else []),
        "#include <stdio.h>",
        "#include <stdlib.h>",
        "#include <string.h>",
        "",
        f"static {name}_state state;",
        "static FILE *data;",
        "static int differences;",
        "",
        _HELPERS,
        "",
        "static void failed(int64_t status, const void *work) {",
        "  char text[400];",
        f"  {name}_error(status, work, text, (int64_t)sizeof text);",
        '  fprintf(stderr, "%s\\n", text);',
        "  exit(2);",
        "}",
        "",
        *[line for call in calls for line in call],
        *_main(name, len(calls), layout, embeds),
    ]
    return "\n".join(lines)


def _main(name: str, calls: int, layout: StateLayout, embeds: bool) -> list[str]:
    """The function main: state from the file, calls, comparison of the state."""
    fields = []
    for member in layout.members:
        if member.nbytes:
            value = f"state.{member.name}" if member.type.shape else f"&state.{member.name}"
            key = _quoted(member.field.key)
            kind = _KINDS.get(C_TYPES[member.type.dtype], "b")
            fields.append(f"  same({value}, sizeof state.{member.name}, '{kind}', {key});")
    return [
        "int main(void) {",
        f'  FILE *file = fopen("{name}.safetensors", "rb");',
        "  char *bytes;",
        "  long size;",
        "  int64_t status;",
        '  data = fopen("main.data", "rb");',
        "  if (!file || !data) {",
        f'    fprintf(stderr, "{name}.safetensors and main.data are to be here\\n");',
        "    return 2;",
        "  }",
        "  fseek(file, 0, SEEK_END);",
        "  size = ftell(file);",
        "  rewind(file);",
        "  bytes = (char *)memory((size_t)size);",
        "  if (fread(bytes, 1, (size_t)size, file) != (size_t)size) return 2;",
        *(_same_from_object(name) if embeds else []),
        f"  status = {name}_init(&state, bytes, size, {name.upper()}_LAYOUT);",
        "  if (status) failed(status, NULL);",
        "  free(bytes);",
        *(_packed_again(name) if layout.prepared_bytes else []),
        *(f"  call{number}();" for number in range(calls)),
        *fields,
        "  fclose(file);",
        "  fclose(data);",
        '  printf("%s\\n", differences ? "other bits" : "the same bits");',
        "  return differences != 0;",
        "}",
        "",
    ]


_HELPERS = """static void *memory(size_t count) {
  void *block = malloc(count ? count : 1);
  if (!block) exit(2);
  return block;
}

static void *read_data(size_t count) {
  void *block = memory(count);
  if (fread(block, 1, count, data) != count) {
    fprintf(stderr, "main.data is too short\\n");
    exit(2);
  }
  return block;
}

/* Equal bits; a NaN is as good as another. kind: 'f' of floats, 'd' of doubles, 'b' of others. */
static int is_same(const char *one, const char *other, size_t count, char kind) {
  size_t at, step = kind == 'f' ? sizeof(float) : sizeof(double);
  if (!memcmp(one, other, count)) return 1;
  if (kind == 'b') return 0;
  for (at = 0; at < count; at += step) {
    double x = 0, y = 0;
    float u = 0, v = 0;
    memcpy(kind == 'f' ? (void *)&u : (void *)&x, one + at, step);
    memcpy(kind == 'f' ? (void *)&v : (void *)&y, other + at, step);
    if (memcmp(one + at, other + at, step) && (kind == 'f' ? u == u || v == v : x == x || y == y))
      return 0;
  }
  return 1;
}

static void same(const void *value, size_t count, char kind, const char *what) {
  void *expected = read_data(count);
  if (!is_same((const char *)value, (const char *)expected, count, kind)) {
    differences++;
    fprintf(stderr, "%s differs\\n", what);
  }
  free(expected);
}"""
_KINDS = {"float": "f", "double": "d"}


def _same_from_object(name: str) -> list[str]:
    """The values in the object, and those in the file."""
    return [
        "  {",
        f"    static {name}_state own;",
        f"    status = {name}_init(&own, NULL, 0, {name.upper()}_LAYOUT);",
        "    if (status) failed(status, NULL);",
        f"    status = {name}_init(&state, bytes, size, {name.upper()}_LAYOUT);",
        "    if (status) failed(status, NULL);",
        "    if (memcmp(&own, &state, sizeof state)) differences++;",
        "  }",
    ]


def _packed_again(name: str) -> list[str]:
    """What init packed is lost, and packed by the other function."""
    return [
        f"  memset(state.{PREPARED}, 77, sizeof state.{PREPARED});",
        f"  status = {name}_prepare(&state);",
        "  if (status) failed(status, NULL);",
    ]


def _call(
    signature: CSignature, source: ObjectSource, number: int, call: ProvenCall, threads: int
) -> Sequence[str]:
    sizes = [f"INT64_C({call.sizes[symbol.name]})" for symbol in source.sizes]
    sizes += [_double(call.sizes[name]) for name in source.floats]
    lines = [f"static void call{number}(void) {{"]
    arrays: list[tuple[str, str, int]] = []
    for position, array in enumerate(call.before):
        type = signature.types.get(position)
        kind = C_TYPES[type.dtype] if type is not None else "char"
        arrays.append((f"a{position}", kind, array.nbytes))
        lines.append(f"  {kind} *a{position} = ({kind} *)read_data({array.nbytes});")
    behind: list[tuple[str, str, int]] = []
    for position, array in enumerate(call.results):
        kind = C_TYPES[TensorType.of(array).dtype]
        behind.append((f"r{position}", kind, array.nbytes))
        lines.append(f"  {kind} *r{position} = ({kind} *)memory({array.nbytes});")
    pointers = [name for name, _, _ in (*arrays, *behind)]
    lines += [
        f"  int64_t bytes = {signature.name}_work_bytes({', '.join(sizes)});",
        "  void *work = memory(bytes < 0 ? 0 : (size_t)bytes);",
        *_run_call(signature.name, number, sizes, [*pointers, "work"], threads),
        "  if (status) failed(status, work);",
    ]
    for name, kind, nbytes in (*arrays, *behind):
        lines.append(
            f"  same({name}, {nbytes}, '{_KINDS.get(kind, 'b')}', \"{name} of call {number}\");"
        )
    lines += [f"  free({name});" for name in (*pointers, "work")]
    body = [*lines, "}", ""]
    if threads == 1:
        return body
    types = [*(f"{kind} *{name}" for name, kind, _ in (*arrays, *behind)), "void *work"]
    return [*_team(signature.name, number, sizes, types, threads), *body]


def _run_call(
    name: str, number: int, sizes: list[str], pointers: list[str], threads: int
) -> list[str]:
    """The lines that run a call: on this thread, or on several."""
    if threads == 1:
        arguments = ", ".join(["&state", *sizes, *pointers])
        return [f"  int64_t status = {name}({arguments});"]
    team = f"team{number}"
    return [
        f"  pthread_t others[{threads}];",
        "  int64_t status, thread;",
        *(f"  {team}.{pointer} = {pointer};" for pointer in pointers),
        f"  for (thread = 1; thread < {threads}; thread++)",
        f"    if (pthread_create(&others[thread], NULL, part{number}, &numbers[thread])) exit(2);",
        f"  part{number}(&numbers[0]);",
        f"  for (thread = 1; thread < {threads}; thread++) pthread_join(others[thread], NULL);",
        f"  status = {team}.status;",
    ]


def _team(name: str, number: int, sizes: list[str], types: list[str], threads: int) -> list[str]:
    """What the threads of a call share, and what each runs."""
    team = f"team{number}"
    listed = ", ".join(map(str, range(threads)))
    pointers = [f"{team}.{type.rpartition('*')[2]}" for type in types]
    arguments = ", ".join(["&state", *sizes, *pointers, "own"])
    return [
        *([f"static int64_t numbers[] = {{{listed}}};", ""] if number == 0 else []),
        "static struct {",
        *(f"  {type};" for type in types),
        "  int64_t counter, status;",
        f"}} {team};",
        f"static void *part{number}(void *thread) {{",
        "  int64_t own = *(int64_t *)thread;",
        f"  int64_t status = {name}_part({arguments}, {threads}, &{team}.counter);",
        f"  if (!own) {team}.status = status;",
        "  return NULL;",
        "}",
        "",
    ]


def _double(number: float) -> str:
    """A double to the bit, in C11 and C++17."""
    if number != number or number in (float("inf"), float("-inf")):
        return f"({number:+g} /* {double_text(number)} */)"
    return float(number).hex()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?")
    return f'"{escaped}"'

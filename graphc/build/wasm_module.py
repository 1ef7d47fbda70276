"""LLVM's object file of WebAssembly → a module, without a linker.

in : the object, and the names of functions that others call
out: the module's bytes, what it imports, and how much memory its data take

Such an object is a module already: with its own numbers for functions and, as nothing is linked to
it, with addresses of data that begin at 0. What it lacks are exports. Memory and the stack's
pointer are imported (`MEMORY`, `STACK`); custom sections are left out. The binary format:
https://webassembly.github.io/spec/core/binary/, the section `linking`:
https://github.com/WebAssembly/tool-conventions/blob/main/Linking.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphc.codegen.llvm.native import compile_text
from graphc.codegen.target import named
from graphc.errors import LoweringError
from graphc.records import record

MEMORY, STACK = "__linear_memory", "__stack_pointer"
FROM_JAVASCRIPT = frozenset(("fmod", "fmodf"))
"""Functions that a module may import besides: `%` of JavaScript is exact, as they are. Its power is
not that of a C library."""
_MODULE = b"\0asm\1\0\0\0"
_CUSTOM, _IMPORTS, _EXPORTS, _STARTS, _DATA = 0, 2, 7, 8, 11
_FUNCTION, _TABLE, _MEMORY, _GLOBAL = 0, 1, 2, 3
_SYMBOLS, _OF_FUNCTION, _OF_DATA, _OF_SECTION = 8, 0, 1, 3
_UNDEFINED, _NAMED = 0x10, 0x40
_I32_CONST, _END = 0x41, 0x0B


@record
class WasmModule:
    """`imports`: names, all of the module `env`. Data lie below `data_end`."""

    code: bytes
    imports: tuple[str, ...]
    data_end: int


PROBE = """
declare <4 x float> @llvm.wasm.relaxed.madd.v4f32(<4 x float>, <4 x float>, <4 x float>)
declare <2 x double> @llvm.wasm.relaxed.madd.v2f64(<2 x double>, <2 x double>, <2 x double>)

; (1 + e)^2 - (1 + 2 e) is 0 where the product is rounded by itself
define i32 @fused() nounwind {
  %a = bitcast <4 x i32> splat (i32 1065355264) to <4 x float>
  %b = bitcast <4 x i32> splat (i32 -1082126336) to <4 x float>
  %c = bitcast <2 x i64> splat (i64 4607182418833571840) to <2 x double>
  %d = bitcast <2 x i64> splat (i64 -4616189617987649536) to <2 x double>
  %x = call <4 x float> @llvm.wasm.relaxed.madd.v4f32(<4 x float> %a, <4 x float> %a,
    <4 x float> %b)
  %y = call <2 x double> @llvm.wasm.relaxed.madd.v2f64(<2 x double> %c, <2 x double> %c,
    <2 x double> %d)
  %float = extractelement <4 x float> %x, i64 0
  %double = extractelement <2 x double> %y, i64 0
  %one = fcmp une float %float, 0.0
  %other = fcmp une double %double, 0.0
  %both = and i1 %one, %other
  %answer = zext i1 %both to i32
  ret i32 %answer
}
"""


def probe() -> bytes:
    """A module with the function `fused`: 1 where relaxed_madd of the machine rounds once."""
    return module_of(compile_text(PROBE, named("wasm32+relaxed")), ["fused"]).code


class _Bytes:
    """Reads numbers and names one after the other."""

    def __init__(self, content: bytes):
        self.content = content
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]

    def number(self) -> int:
        """LEB128."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def take(self, count: int) -> bytes:
        self.at += count
        return self.content[self.at - count : self.at]

    def name(self) -> str:
        return self.take(self.number()).decode()

    def limits(self) -> None:
        """The least and, where there is one, the greatest size."""
        has_most = self.byte() & 1
        self.number()
        if has_most:
            self.number()


def module_of(code: bytes, exported: Sequence[str]) -> WasmModule:
    """The module of an object; `exported` are functions that it defines. Raises LoweringError where
    it needs more from outside than a page has."""
    sections = list(sections_of(code))
    imports = [name for kind, body in sections if kind == _IMPORTS for name in _imported(body)]
    foreign = set(imports) - {MEMORY, STACK} - FROM_JAVASCRIPT
    if foreign:
        raise LoweringError(
            f"{', '.join(sorted(foreign))} of the C library has other bits in JavaScript",
            hint="compute it outside and hand it in",
        )
    functions = _functions(sections)
    rows = [_text(name) + bytes([_FUNCTION]) + _leb(functions[name]) for name in exported]
    exports = _leb(len(rows)) + b"".join(rows)
    kept = [(kind, body) for kind, body in sections if kind != _CUSTOM]
    place = next(
        (i for i, (kind, _) in enumerate(kept) if kind >= _STARTS and kind < 13), len(kept)
    )
    kept.insert(place, (_EXPORTS, exports))
    body = b"".join(bytes([kind]) + _leb(len(body)) + body for kind, body in kept)
    ends = [_data_end(body) for kind, body in sections if kind == _DATA]
    return WasmModule(_MODULE + body, tuple(imports), max(ends, default=0))


def sections_of(code: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of each section of a module or object."""
    if code[:8] != _MODULE:
        raise LoweringError("this is no WebAssembly")
    read = _Bytes(code)
    read.at = 8
    while read.at < len(code):
        kind = read.byte()
        yield kind, read.take(read.number())


def _imported(body: bytes) -> Iterator[str]:
    read = _Bytes(body)
    for _ in range(read.number()):
        read.name()
        name, kind = read.name(), read.byte()
        if kind == _FUNCTION:
            read.number()
        elif kind == _TABLE:
            read.byte()
            read.limits()
        elif kind == _MEMORY:
            read.limits()
        else:
            assert kind == _GLOBAL
            read.take(2)
        yield name


def _functions(sections: Sequence[tuple[int, bytes]]) -> dict[str, int]:
    """The numbers of the functions that the object defines, from its table of symbols."""
    functions: dict[str, int] = {}
    for kind, body in sections:
        read = _Bytes(body)
        if kind != _CUSTOM or read.name() != "linking":
            continue
        read.number()  # the version
        while read.at < len(body):
            part, size = read.byte(), read.number()
            end = read.at + size
            if part == _SYMBOLS:
                for _ in range(read.number()):
                    _symbol(read, functions)
            read.at = end
    return functions


def _symbol(read: _Bytes, functions: dict[str, int]) -> None:
    kind, flags = read.byte(), read.number()
    if kind == _OF_DATA:
        read.name()
        if not flags & _UNDEFINED:
            read.number(), read.number(), read.number()
    elif kind == _OF_SECTION:
        read.number()
    else:
        index = read.number()
        if not flags & _UNDEFINED or flags & _NAMED:
            name = read.name()
            if kind == _OF_FUNCTION and not flags & _UNDEFINED:
                functions[name] = index


def _data_end(body: bytes) -> int:
    """Behind the last byte of all data."""
    read, end = _Bytes(body), 0
    for _ in range(read.number()):
        if read.byte() != 0 or read.byte() != _I32_CONST:
            raise LoweringError("data whose address is not known")
        begin = read.number()
        if read.byte() != _END:
            raise LoweringError("data whose address is not known")
        size = read.number()
        read.take(size)
        end = max(end, begin + size)
    return end


def _leb(number: int) -> bytes:
    content = bytearray()
    while True:
        number, low = number >> 7, number & 127
        content.append(low | (128 if number else 0))
        if not number:
            return bytes(content)


def _text(name: str) -> bytes:
    raw = name.encode()
    return _leb(len(raw)) + raw

"""LLVM IR of a * b + c, rounded once.

In: the function's text so far, a type and operands. Out: the instruction that gives the result, and
the lines ahead of it. Where the processor has it, or the C library (`llvm.fma`), it is one call.
Else it takes registers: WebAssembly's `llvm.wasm.relaxed.madd` rounds once on most machines, which
has to be asked of the machine; `graphc.fma` are functions that compute it (`COMPUTED`), and stand
in each module that calls them.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.llvm.function_text import ELEMENT, FunctionText, llvm_type, type_code
from graphc.codegen.llvm.registers import joined_lanes, lanes_of
from graphc.codegen.loop_ir.opcodes import VectorType
from graphc.ir.types import DType

OF_ANY_LANES = "llvm.fma"
RELAXED_NAME, COMPUTED_NAME = "llvm.wasm.relaxed.madd", "graphc.fma"
REGISTER_BYTES = 16


def fma_text(function: FunctionText, type: VectorType, operands: Sequence[str]) -> str:
    """The instruction; operands are texts without their type."""
    target = function.target
    base = target.double_fma if type.dtype is DType.f64 else target.fma
    if base == OF_ANY_LANES:
        listed = [(llvm_type(type), operand) for operand in operands]
        return function.intrinsic(f"{base}.{type_code(type)}", llvm_type(type), listed)
    element, width = ELEMENT[type.dtype], REGISTER_BYTES // type.dtype.itemsize
    register = f"<{width} x {element}>"
    name = f"{base}.{type_code(type.with_lanes(width))}"
    function.declarations |= COMPUTED.get(name, {})

    def call(parts: Sequence[str]) -> str:
        return function.intrinsic(name, register, [(register, part) for part in parts])

    if type.is_scalar:
        first = [
            function.temporary(f"insertelement {register} poison, {element} {operand}, i64 0")
            for operand in operands
        ]
        return f"extractelement {register} {function.temporary(call(first))}, i64 0"
    if type.lanes == width:
        return call(operands)
    joined, count = "", 0
    for start in range(0, type.lanes, width):
        parts = [lanes_of(function, element, x, type.lanes, start, width) for x in operands]
        part = function.temporary(call(parts))
        joined = joined_lanes(function, element, joined, count, part, width) if joined else part
        count += width
    whole = ", ".join(f"i32 {lane}" for lane in range(type.lanes))
    vector = f"<{count} x {element}>"
    return f"shufflevector {vector} {joined}, {vector} poison, <{type.lanes} x i32> <{whole}>"


# The product of two f32 is exact in f64. To round its sum with the third twice does no harm but
# where that lies half way between two f32; so may any sum that is subnormal as an f32. Then the sum
# is rounded to odd: towards zero, and the last bit says that there was a rest.
_FLOATS = """
define linkonce_odr hidden <4 x float> @graphc.fma.v4f32(
    <4 x float> %a, <4 x float> %b, <4 x float> %c) nounwind {
entry:
  %x = fpext <4 x float> %a to <4 x double>
  %y = fpext <4 x float> %b to <4 x double>
  %z = fpext <4 x float> %c to <4 x double>
  %product = fmul <4 x double> %x, %y
  %added = fadd <4 x double> %product, %z
  %sum = freeze <4 x double> %added ; lanes that nobody reads may hold anything
  %words = bitcast <4 x double> %sum to <8 x i32>
  %low = shufflevector <8 x i32> %words, <8 x i32> poison, <4 x i32> <i32 0, i32 2, i32 4, i32 6>
  %high = shufflevector <8 x i32> %words, <8 x i32> poison, <4 x i32> <i32 1, i32 3, i32 5, i32 7>
  %tail = and <4 x i32> %low, splat (i32 536870911)
  %is.half = icmp eq <4 x i32> %tail, splat (i32 268435456)
  ; 0 < size < 2^-126, as one comparison
  %size = and <4 x i32> %high, splat (i32 2147483647)
  %less = sub <4 x i32> %size, splat (i32 1)
  %is.small = icmp ult <4 x i32> %less, splat (i32 940572671)
  %is.rare = or <4 x i1> %is.half, %is.small
  %mask = bitcast <4 x i1> %is.rare to i4
  %all.usual = icmp eq i4 %mask, 0
  br i1 %all.usual, label %usual, label %rare
usual:
  %near = phi <4 x double> [ %sum, %entry ], [ %odd, %rare ]
  %a.wide = shufflevector <4 x double> %near, <4 x double> poison, <2 x i32> <i32 0, i32 1>
  %b.wide = shufflevector <4 x double> %near, <4 x double> poison, <2 x i32> <i32 2, i32 3>
  %a.near = fptrunc <2 x double> %a.wide to <2 x float>
  %b.near = fptrunc <2 x double> %b.wide to <2 x float>
  ; with zeros behind it each is one instruction
  %a.half = shufflevector <2 x float> %a.near, <2 x float> zeroinitializer,
    <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %b.half = shufflevector <2 x float> %b.near, <2 x float> zeroinitializer,
    <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %result = shufflevector <4 x float> %a.half, <4 x float> %b.half,
    <4 x i32> <i32 0, i32 1, i32 4, i32 5>
  ret <4 x float> %result
rare:
  %part = fsub <4 x double> %sum, %product
  %other = fsub <4 x double> %sum, %part
  %z.rest = fsub <4 x double> %z, %part
  %product.rest = fsub <4 x double> %product, %other
  %rest = fadd <4 x double> %product.rest, %z.rest
  %bits = bitcast <4 x double> %sum to <4 x i64>
  %turned = bitcast <4 x double> %rest to <4 x i64>
  %signs = xor <4 x i64> %bits, %turned
  %beyond = ashr <4 x i64> %signs, splat (i64 63)
  %toward.zero = add <4 x i64> %bits, %beyond
  %marked = or <4 x i64> %toward.zero, splat (i64 1)
  %inexact = fcmp one <4 x double> %rest, zeroinitializer
  %odd.bits = select <4 x i1> %inexact, <4 x i64> %marked, <4 x i64> %bits
  %odd = bitcast <4 x i64> %odd.bits to <4 x double>
  br label %usual
}
"""
_PAIRS = """
define linkonce_odr hidden <2 x double> @graphc.fma.v2f64(
    <2 x double> %a, <2 x double> %b, <2 x double> %c) nounwind {
  %a0 = extractelement <2 x double> %a, i64 0
  %b0 = extractelement <2 x double> %b, i64 0
  %c0 = extractelement <2 x double> %c, i64 0
  %a1 = extractelement <2 x double> %a, i64 1
  %b1 = extractelement <2 x double> %b, i64 1
  %c1 = extractelement <2 x double> %c, i64 1
  %low = call double @graphc.fma.f64(double %a0, double %b0, double %c0)
  %high = call double @graphc.fma.f64(double %a1, double %b1, double %c1)
  %first = insertelement <2 x double> poison, double %low, i64 0
  %both = insertelement <2 x double> %first, double %high, i64 1
  ret <2 x double> %both
}
"""
_DOUBLE = """
; Product and sum in 128 bits, (high, low); what is shifted out below leaves a last bit.
define linkonce_odr hidden double @graphc.fma.f64(double %a, double %b, double %c) nounwind {
  %a.bits = bitcast double %a to i64
  %b.bits = bitcast double %b to i64
  %c.bits = bitcast double %c to i64
  %a.size = and i64 %a.bits, 9223372036854775807
  %b.size = and i64 %b.bits, 9223372036854775807
  %c.size = and i64 %c.bits, 9223372036854775807
  ; 0 < size < infinity, as one comparison
  %a.less = sub i64 %a.size, 1
  %b.less = sub i64 %b.size, 1
  %c.less = sub i64 %c.size, 1
  %a.plain = icmp ult i64 %a.less, 9218868437227405311
  %b.plain = icmp ult i64 %b.less, 9218868437227405311
  %c.plain = icmp ult i64 %c.less, 9218868437227405311
  %both = and i1 %a.plain, %b.plain
  %all = and i1 %both, %c.plain
  br i1 %all, label %plain, label %special
special:
  %rounded = fmul double %a, %b
  %added = fadd double %rounded, %c
  %c.zero = icmp eq i64 %c.size, 0
  %of.zero = select i1 %c.zero, double %rounded, double %c
  %told = select i1 %both, double %of.zero, double %added
  %a.finite = icmp ult i64 %a.size, 9218868437227405312
  %b.finite = icmp ult i64 %b.size, 9218868437227405312
  %c.infinite = icmp uge i64 %c.size, 9218868437227405312
  %ab.finite = and i1 %a.finite, %b.finite
  %only.c = and i1 %ab.finite, %c.infinite
  %answer = select i1 %only.c, double %c, double %told
  ret double %answer
plain:
  ; mantissas whose first bit is the 53rd, and exponents
  %a.exp = lshr i64 %a.size, 52
  %b.exp = lshr i64 %b.size, 52
  %c.exp = lshr i64 %c.size, 52
  %a.field = call i64 @llvm.smax.i64(i64 %a.exp, i64 1)
  %b.field = call i64 @llvm.smax.i64(i64 %b.exp, i64 1)
  %c.field = call i64 @llvm.smax.i64(i64 %c.exp, i64 1)
  %a.up = sub i64 %a.field, 1
  %b.up = sub i64 %b.field, 1
  %c.up = sub i64 %c.field, 1
  %a.hidden = shl i64 %a.up, 52
  %b.hidden = shl i64 %b.up, 52
  %c.hidden = shl i64 %c.up, 52
  %a.whole = sub i64 %a.size, %a.hidden
  %b.whole = sub i64 %b.size, %b.hidden
  %c.whole = sub i64 %c.size, %c.hidden
  %a.lead = call i64 @llvm.ctlz.i64(i64 %a.whole, i1 false)
  %b.lead = call i64 @llvm.ctlz.i64(i64 %b.whole, i1 false)
  %c.lead = call i64 @llvm.ctlz.i64(i64 %c.whole, i1 false)
  %a.by = sub i64 %a.lead, 1
  %b.by = sub i64 %b.lead, 1
  %c.by = sub i64 %c.lead, 1
  %a.left = shl i64 %a.whole, %a.by
  %b.left = shl i64 %b.whole, %b.by
  %c.left = shl i64 %c.whole, %c.by
  %a.e = sub i64 %a.field, %a.by
  %b.e = sub i64 %b.field, %b.by
  %c.e = sub i64 %c.field, %c.by
  ; the product, from 2^124 up: value (high, low) 2^e
  %a.high = lshr i64 %a.left, 32
  %b.high = lshr i64 %b.left, 32
  %a.low = and i64 %a.left, 4294967295
  %b.low = and i64 %b.left, 4294967295
  %ll = mul i64 %a.low, %b.low
  %lh = mul i64 %a.low, %b.high
  %hl = mul i64 %a.high, %b.low
  %hh = mul i64 %a.high, %b.high
  %middle = add i64 %lh, %hl
  %middle.up = shl i64 %middle, 32
  %middle.down = lshr i64 %middle, 32
  %p.low = add i64 %ll, %middle.up
  %p.over = icmp ult i64 %p.low, %ll
  %p.carry = zext i1 %p.over to i64
  %p.some = add i64 %hh, %middle.down
  %p.high = add i64 %p.some, %p.carry
  %e.both = add i64 %a.e, %b.e
  %e.p = sub i64 %e.both, 2150
  ; c as (c.left, 0) is 2^distance times as high; the lower one is shifted down
  %c.place = sub i64 %c.e, 1139
  %distance = sub i64 %c.place, %e.p
  %c.above = icmp sgt i64 %distance, 0
  %down = sub i64 0, %distance
  %far = select i1 %c.above, i64 %distance, i64 %down
  %amount = call i64 @llvm.umin.i64(i64 %far, i64 127)
  %e = select i1 %c.above, i64 %c.place, i64 %e.p
  %fixed.high = select i1 %c.above, i64 %c.left, i64 %p.high
  %fixed.low = select i1 %c.above, i64 0, i64 %p.low
  %start.high = select i1 %c.above, i64 %p.high, i64 %c.left
  %start.low = select i1 %c.above, i64 %p.low, i64 0
  %is.long = icmp uge i64 %amount, 64
  %lost.word = select i1 %is.long, i64 %start.low, i64 0
  %half.low = select i1 %is.long, i64 %start.high, i64 %start.low
  %half.high = select i1 %is.long, i64 0, i64 %start.high
  %bits = and i64 %amount, 63
  %unit = shl i64 1, %bits
  %mask = sub i64 %unit, 1
  %lost.bits = and i64 %half.low, %mask
  %lost = or i64 %lost.word, %lost.bits
  %is.lost = icmp ne i64 %lost, 0
  %rest = zext i1 %is.lost to i64
  %shifted.low = call i64 @llvm.fshr.i64(i64 %half.high, i64 %half.low, i64 %bits)
  %moved.low = or i64 %shifted.low, %rest
  %moved.high = lshr i64 %half.high, %bits
  ; the sum of equal signs, or the difference
  %p.sign = xor i64 %a.bits, %b.bits
  %fixed.sign = select i1 %c.above, i64 %c.bits, i64 %p.sign
  %signs = xor i64 %p.sign, %c.bits
  %differ = icmp slt i64 %signs, 0
  %sum.low = add i64 %fixed.low, %moved.low
  %sum.over = icmp ult i64 %sum.low, %fixed.low
  %sum.carry = zext i1 %sum.over to i64
  %sum.some = add i64 %fixed.high, %moved.high
  %sum.high = add i64 %sum.some, %sum.carry
  %less.low = sub i64 %fixed.low, %moved.low
  %less.under = icmp ult i64 %fixed.low, %moved.low
  %borrow = zext i1 %less.under to i64
  %less.some = sub i64 %fixed.high, %moved.high
  %less.high = sub i64 %less.some, %borrow
  %is.below = icmp slt i64 %less.high, 0
  %turned.low = sub i64 0, %less.low
  %turned.none = icmp eq i64 %less.low, 0
  %turned.carry = zext i1 %turned.none to i64
  %turned.not = xor i64 %less.high, -1
  %turned.high = add i64 %turned.not, %turned.carry
  %size.low = select i1 %is.below, i64 %turned.low, i64 %less.low
  %size.high = select i1 %is.below, i64 %turned.high, i64 %less.high
  %total.low = select i1 %differ, i64 %size.low, i64 %sum.low
  %total.high = select i1 %differ, i64 %size.high, i64 %sum.high
  %flips = and i1 %differ, %is.below
  %other.sign = xor i64 %fixed.sign, -1
  %sign.bits = select i1 %flips, i64 %other.sign, i64 %fixed.sign
  %sign = and i64 %sign.bits, -9223372036854775808
  %any = or i64 %total.low, %total.high
  %none = icmp eq i64 %any, 0
  br i1 %none, label %zero, label %number
zero:
  ret double 0.0
number:
  ; the first bit in front, 63 bits of them kept, the last one for all behind
  %is.small = icmp eq i64 %total.high, 0
  %front = select i1 %is.small, i64 %total.low, i64 %total.high
  %behind = select i1 %is.small, i64 0, i64 %total.low
  %e.word = select i1 %is.small, i64 64, i64 0
  %lead = call i64 @llvm.ctlz.i64(i64 %front, i1 false)
  %first = call i64 @llvm.fshl.i64(i64 %front, i64 %behind, i64 %lead)
  %second = shl i64 %behind, %lead
  %e.less = add i64 %e.word, %lead
  %e.first = sub i64 %e, %e.less
  %has.second = icmp ne i64 %second, 0
  %second.bit = zext i1 %has.second to i64
  %first.bit = and i64 %first, 1
  %first.half = lshr i64 %first, 1
  %some = or i64 %first.bit, %second.bit
  %mantissa = or i64 %first.half, %some
  %field = add i64 %e.first, 1150
  ; further down where the result is subnormal
  %missing = sub i64 1, %field
  %missing.some = call i64 @llvm.smax.i64(i64 %missing, i64 0)
  %deep = call i64 @llvm.umin.i64(i64 %missing.some, i64 63)
  %deep.unit = shl i64 1, %deep
  %deep.mask = sub i64 %deep.unit, 1
  %deep.lost = and i64 %mantissa, %deep.mask
  %deep.any = icmp ne i64 %deep.lost, 0
  %deep.bit = zext i1 %deep.any to i64
  %deep.shifted = lshr i64 %mantissa, %deep
  %kept = or i64 %deep.shifted, %deep.bit
  ; 10 bits are rounded off, halves to even; a carry goes on into the exponent
  %last.place = lshr i64 %kept, 10
  %last.bit = and i64 %last.place, 1
  %nearly = add i64 %kept, 511
  %near = add i64 %nearly, %last.bit
  %result.mantissa = lshr i64 %near, 10
  %field.less = sub i64 %field, 1
  %result.field = call i64 @llvm.smax.i64(i64 %field.less, i64 0)
  %placed = shl i64 %result.field, 52
  %finite = add i64 %placed, %result.mantissa
  %overflows = icmp sge i64 %field, 2047
  %result.size = select i1 %overflows, i64 9218868437227405312, i64 %finite
  %result.bits = or i64 %result.size, %sign
  %result = bitcast i64 %result.bits to double
  ret double %result
}
"""
COMPUTED = {
    "graphc.fma.v4f32": {"graphc.fma.v4f32": _FLOATS},
    "graphc.fma.v2f64": {"graphc.fma.v2f64": _PAIRS, "graphc.fma.f64": _DOUBLE},
}
"""The definitions that a call takes, by their names: correctly rounded in all cases. Modules that
are linked into one share them (`linkonce_odr`)."""

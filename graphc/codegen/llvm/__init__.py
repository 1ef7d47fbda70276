"""Loops → LLVM IR → object code → memory.

kernel takes the statements of a kernel in order, and writes them into a function_text: ops the
opcodes (convert between dtypes, lookup in small tables, pairs of bf16, quads of bytes, fma where a
processor has none, in registers that vectors are cut into, constants folded), memory loads and
stores, size_text what depends on sizes; cold_paths cuts out cold branches, induction_pointers
carries addresses along with loops. jit compiles a kernel once a process, native is LLVM itself,
loading has code in memory as long as something holds it, object_cache keeps it on disk, in
private_files.
"""

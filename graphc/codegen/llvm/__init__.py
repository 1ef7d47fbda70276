"""Loops → LLVM IR → object code → memory.

kernel walks the statements of a kernel, the other files write what it meets (cold_paths cuts out
cold branches, induction_pointers carries addresses along with loops). jit compiles a kernel once a
process, native is LLVM itself, object_cache keeps object code on disk.
"""

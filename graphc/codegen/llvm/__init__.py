"""Loops as LLVM IR, one to one: `kernel` walks the statements, the others write what it meets."""

"""Plan → native code. Data goes through the folders in this order, and each may import only what
stands behind it here:

- program: kernels of a plan lowered, compiled and loaded, and a driver that calls them in order
- kernels: the body of a kernel (a small graph) → loops, a recipe a kind of anchor
- nests: loops as a value: axes, splits with named tails, stages, statements; one writer
- elements: an element of a graph's value as loop values: what kernels ask for
- llvm: loops → LLVM IR → object code → memory
- cache: object code on disk, between processes
- libm: functions of vectors as loop values
- loop_ir: the loops themselves: nodes, builder, printer, verifier, interpreter
- target: processors that code is made for

stages goes all the way from a graph to loops, once for all who ask, as options say.
"""

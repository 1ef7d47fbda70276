"""The loop IR, third of the four levels.

nodes and opcodes say what there is; builder writes it, into open_blocks; printer gives its text,
verifier holds rules L1 to L12, interpreter runs it (R1 to R3): operations are the opcodes in NumPy,
arguments what a call takes.
"""

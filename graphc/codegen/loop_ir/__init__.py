"""The loop IR, fourth of the five levels.

nodes and opcodes say what there is; builder writes it, into open_blocks; numbers are what it counts
with: known where it is written, or computed when it runs. printer gives its text, verifier holds
rules L1 to L12, interpreter runs it (R1 to R3): operations are the opcodes in NumPy, arguments what
a call takes.
"""

"""Elements of a graph's values as loop values.

evaluator follows index maps and scalar rules from a wanted element to loads of buffers; addresses
turns index expressions into integers of loops; algebra (with vector_math and integer_math) is what
scalar rules run over; reduction sums; copier and shuffles move blocks through registers.
"""

"""Mathematical functions of vectors, written in the loop IR: no call of the C library's.

vector_math has those of f32, wide_math those of f32 that are computed in f64, double_math those of
f64 (double_pairs and double_coefficients serve it), integer_math division and powers of integers.
`elements.algebra` asks for them by the names of scalar rules.
"""

"""The kinds of ops. Each turns a declaration into inference, eager computation and reference.

| kind | a declaration says | examples |
|---|---|---|
| elementwise | a scalar rule over a small algebra | add, exp, where |
| reduce | how two partial results combine, and the identity | sum, max |
| movement | which element of which operand each result element is | reshape, pad, concat |
| contract | an index expression over a reduction | matmul, conv2d |
| index | like movement, with data-dependent coordinates | gather, scatter_add |
| scan | how what came before along an axis combines with one element more | cumsum, argcummax |
| sort | nothing: the order of the elements along an axis, or the first of it | argsort, argtopk |
| serial | how one thread writes the result, reading it back | mersenne_twister |
| generate | an element as a function of its own position | iota, random_uniform |
| composite | a graph over other ops | softmax, layer_norm |
| host | a function of arrays that Python computes, and its types | linalg_solve, histogram |
| region | when the graphs that its nodes hold run, and on what | cond, while_loop, scan |

A kind is a subclass of `Op` (op.py) in a file of its name. Scalar rules run over an algebra: for
eager and the reference that is numpy_algebra.py (and numpy_convolution.py; numpy_fma.py is what
NumPy has no function for). Index maps are expressions: index_expr.py.
"""

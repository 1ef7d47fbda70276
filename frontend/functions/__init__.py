"""Functions of tensors by family, as PyTorch names them.

Each is declared where it stands (`@public`, see declarations): namespace.methods attaches to Tensor
what is a method. Of one operand and one op are those in unary, of two those in pointwise and logic,
of several ops those in pointwise_composites; bessel_and_gamma has the rest of `torch.special`,
integers_and_mantissas what looks at whole numbers and parts of floats, torch_in_place what PyTorch
has at the top level beside methods (`abs_(x)`), tensor_properties what is asked of one tensor.

New tensors: creation, ranges (with creation_options, what they take), random, sampling, windows;
the numbers come from drawn_words, drawn_numbers and random_fills, inside networks from
network_draws. Other dtypes, places and layouts: conversion, places, tensor_types, memory,
memory_order, layout, copies, sparse_layouts, quantization and quantized_tensor, complex_numbers.

Parts and rearrangements: index (indices says what an index means), select, masks, scatter,
compaction; shape, rearrange, repeating. Over elements: reduce, norms, statistics, histograms,
order, order_statistics, differences, distances. Products: matrix, einsum, linalg and
linear_algebra/; spectra: fourier. control has branches and loops that a trace keeps, foreach
functions of lists of tensors.

in_place has changes in place without another form, in_place_variants all others. arguments and
assertions are what functions ask of what they are given, return_types what several results are.
"""

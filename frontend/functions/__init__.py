"""Functions of tensors by family, as PyTorch names them.

Each is declared where it stands (`@public`, see declarations): namespace.methods attaches to Tensor
what is a method. Of one operand and one op are those in unary, of two those in pointwise and logic,
of several ops those in pointwise_composites; bessel_and_gamma has the rest of `torch.special`,
integers_and_mantissas what looks at whole numbers and parts of floats, torch_in_place what PyTorch
has at the top level beside methods (`abs_(x)`), tensor_properties what is asked of one tensor.
"""

"""`torch.sparse`: not here; each name raises NotImplementedError when used."""

from frontend.namespace.absent import absent_names

_ABSENT = absent_names(
    "sparse",
    "ByteTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor "
    "SparseSemiStructuredTensor addmm as_sparse_gradcheck check_sparse_tensor_invariants "
    "log_softmax mm sampled_addmm softmax spdiags spsolve sum to_sparse_semi_structured",
    "tensors are dense; torch.nn.EmbeddingBag sums chosen rows, index_add adds at indices",
)
globals().update(_ABSENT)
__all__ = list(_ABSENT)

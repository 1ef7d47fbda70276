"""What embeddings, bags, linear maps and distances refuse."""

from __future__ import annotations

from tests.frontend.layer_cases.refusals.refusal import Refusal

REFUSALS = [
    Refusal(
        lambda t: t.nn.Embedding(3, 2, padding_idx=5),
        AssertionError,
        "Padding_idx must be within num_embeddings",
    ),
    Refusal(
        lambda t: t.nn.Embedding(3, 2, _weight=t.zeros(2, 2)),
        AssertionError,
        "Shape of weight does not match num_embeddings and",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding(t.zeros(2), t.zeros(3, 2)),
        RuntimeError,
        "Expected tensor for argument #1 'indices' to have one of",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding(t.zeros(2).long(), t.zeros(3, 2, 2)),
        RuntimeError,
        "'weight' must be 2-D, got size [3, 2, 2]",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding(t.tensor([3]), t.zeros(3, 2)),
        IndexError,
        "index out of range in self: 3 is not in [0, 3)",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding(t.tensor([-1]), t.zeros(3, 2)),
        IndexError,
        "index out of range in self: -1 is not in [0, 3)",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding(t.tensor([3]), t.zeros(3, 2), max_norm=1.0),
        IndexError,
        "index out of range in self: 3 is not in [0, 3)",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding(t.zeros(2).long(), t.zeros(3, 2), padding_idx=4),
        AssertionError,
        "Padding_idx must be within num_embeddings",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding_bag(t.zeros(2, 2).long(), t.zeros(3, 2), t.tensor([0])),
        ValueError,
        "if input is 2D, then offsets has to be None, as input is",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding_bag(t.zeros(2).long(), t.zeros(3, 2)),
        ValueError,
        "offsets has to be a 1D Tensor but got None",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding_bag(t.zeros(2, 2, 2).long(), t.zeros(3, 2)),
        ValueError,
        "input has to be 1D or 2D Tensor, but got Tensor of",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding_bag(
            t.zeros(2).long(), t.zeros(3, 2), t.zeros(1, 1).long()
        ),
        ValueError,
        "offsets has to be a 1D Tensor",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding_bag(t.zeros(2, 2).long(), t.zeros(3, 2), mode="x"),
        ValueError,
        "mode has to be one of sum, mean or max",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding_bag(
            t.zeros(2, 2).long(), t.zeros(3, 2), mode="mean", per_sample_weights=t.zeros(2, 2)
        ),
        NotImplementedError,
        "embedding_bag: per_sample_weights was not None.",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding_bag(
            t.zeros(2, 2).long(), t.zeros(3, 2), mode="sum", per_sample_weights=t.zeros(2)
        ),
        ValueError,
        "embedding_bag: If per_sample_weights (torch.Size([2])) is",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding_bag(
            t.zeros(2, 2).long(),
            t.zeros(3, 2),
            mode="sum",
            per_sample_weights=t.zeros(2, 2).double(),
        ),
        RuntimeError,
        "Expected tensor for argument #1 'weight' to have the same",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding_bag(
            t.zeros(2, 2).long(), t.zeros(3, 2), mode="max", scale_grad_by_freq=True
        ),
        ValueError,
        "max mode does not support scaling the gradient by the",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding_bag(
            t.zeros(2, 2).long(), t.zeros(3, 2), mode="max", sparse=True
        ),
        ValueError,
        "max mode does not support sparse weights",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding_bag(t.zeros(2, 2).long(), t.zeros(3, 2), padding_idx=7),
        RuntimeError,
        "padding_idx must be within the number of embeddings, -3",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding_bag(t.tensor([5]), t.zeros(3, 2), t.tensor([0])),
        RuntimeError,
        "index out of range in self: 5 is not in [0, 3)",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding_bag(t.tensor([1]), t.zeros(3, 2), t.tensor([1])),
        RuntimeError,
        "offsets[0] has to be 0, i.e., the first sequence in the",
    ),
    Refusal(
        lambda t: t.nn.functional.embedding_bag(t.tensor([1]), t.zeros(3, 2), t.tensor([0, 4])),
        RuntimeError,
        "offsets[-1] can not be greater than input's length 1 but",
    ),
    Refusal(
        lambda t: t.nn.functional.linear(t.zeros(2, 3), t.zeros(4, 3), t.zeros(5)),
        RuntimeError,
        "The expanded size of the tensor (4) must match the existing",
    ),
    Refusal(
        lambda t: t.nn.functional.linear(t.zeros(2, 3), t.zeros(2, 4, 3)),
        RuntimeError,
        "t() expects a tensor with <= 2 dimensions, but self is 3D",
    ),
    Refusal(
        lambda t: t.nn.functional.linear(t.zeros(2, 3), t.zeros(4, 3).double()),
        RuntimeError,
        "mat1 and mat2 must have the same dtype, but got Float and",
    ),
    Refusal(
        lambda t: t.nn.functional.linear(t.zeros(2, 3), t.zeros(4, 2)),
        RuntimeError,
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x4)",
    ),
    Refusal(
        lambda t: t.nn.functional.linear(t.tensor(1.0), t.zeros(4, 3)),
        RuntimeError,
        "both arguments to linear need to be at least 1D, but they",
    ),
    Refusal(
        lambda t: t.nn.functional.bilinear(t.zeros(2, 3), t.zeros(3, 4), t.zeros(5, 3, 4)),
        RuntimeError,
        "bilinear(): input batch dimensions do not match: got [2, 3]",
    ),
    Refusal(
        lambda t: t.nn.functional.bilinear(t.zeros(2, 3), t.zeros(2, 4), t.zeros(5, 3, 3)),
        RuntimeError,
        "bilinear(): input2 size does not match weight size: got 4",
    ),
    Refusal(
        lambda t: t.nn.functional.bilinear(
            t.zeros(2, 3), t.zeros(2, 4), t.zeros(5, 3, 4), t.zeros(4)
        ),
        RuntimeError,
        "bilinear(): bias size does not match weight size: got [4]",
    ),
    Refusal(
        lambda t: t.nn.functional.bilinear(t.zeros(2, 1, 3), t.zeros(2, 4), t.zeros(5, 3, 4)),
        RuntimeError,
        "bilinear(): input dimensions do not match: got 3 and 2",
    ),
    Refusal(
        lambda t: t.nn.functional.bilinear(t.zeros(2, 3), t.zeros(2, 4), t.zeros(5, 3, 4).double()),
        RuntimeError,
        "All tensors must have the same dtype, got input1: Float,",
    ),
    Refusal(
        lambda t: t.nn.Bilinear(0, 1, 2),
        ValueError,
        "in1_features must be > 0, but got (in1_features=0)",
    ),
    Refusal(
        lambda t: t.nn.functional.pdist(t.zeros(2)),
        RuntimeError,
        "pdist only supports 2D tensors, got: 1D ([2])",
    ),
    Refusal(
        lambda t: t.nn.functional.pdist(t.zeros(2, 2), p=-1),
        RuntimeError,
        "pdist only supports non-negative p values",
    ),
    Refusal(
        lambda t: t.nn.functional.cosine_similarity(t.zeros(2, 3).long(), t.zeros(2, 3).long()),
        RuntimeError,
        "expected common dtype to be floating point, yet common",
    ),
    Refusal(
        lambda t: t.nn.functional.cosine_similarity(t.zeros(2, 3), t.zeros(3), dim=2),
        IndexError,
        "Dimension out of range (expected to be in range of [-2, 1],",
    ),
    Refusal(
        lambda t: t.nn.functional.cosine_similarity(t.zeros(2, 3), t.zeros(2, 4)),
        RuntimeError,
        "The size of tensor a (3) must match the size of tensor b",
    ),
    Refusal(
        lambda t: t.nn.functional.pairwise_distance(t.zeros(2, 3), t.zeros(2, 4)),
        RuntimeError,
        "The size of tensor a (3) must match the size of tensor b",
    ),
]

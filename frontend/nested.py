"""`torch.nested`: not here; each name raises NotImplementedError when used."""

from frontend.namespace.absent import absent_names

_ABSENT = absent_names(
    "nested",
    "as_nested_tensor masked_select narrow nested_tensor nested_tensor_from_jagged "
    "to_padded_tensor",
    "pad sequences to one length (torch.nn.utils.rnn.pad_sequence) and mask them",
)
globals().update(_ABSENT)
__all__ = list(_ABSENT)

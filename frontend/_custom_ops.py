"""`torch._custom_ops`: the former home of `torch.library`'s functions."""

from frontend.library import custom_op, get_ctx, impl, impl_abstract

__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract"]

"""`torch.nn.utils.stateless`: `functional_call` under its older name."""

from frontend.func import functional_call as functional_call

__all__ = ["functional_call"]

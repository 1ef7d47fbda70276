"""`torch.autograd.forward_ad`: tensors that carry a tangent. They are not here: forward derivatives
of functions are `torch.func.jvp` and `jacfwd`."""

from frontend.namespace.stubs import stubs

globals().update(stubs("autograd.forward_ad"))

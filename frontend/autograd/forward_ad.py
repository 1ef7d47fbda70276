"""`torch.autograd.forward_ad`: tensors that carry a tangent. They are not here: forward derivatives
of functions are `torch.func.jvp` and `jacfwd`."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "autograd.forward_ad",
        "UnpackedDualTensor dual_level enter_dual_level exit_dual_level make_dual unpack_dual",
        "use torch.func.jvp",
    )
)

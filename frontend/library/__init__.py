"""`torch.library`: operators of one's own, written in Python, under `torch.ops`.

    @torch.library.custom_op("mine::square", mutates_args=())
    def square(x: Tensor) -> Tensor: ...

An operator has kernels by dispatch key, of which the CPU's runs, and perhaps a gradient rule. In a
compiled function its Python is traced like any other. Fake kernels run on tensors without data.

operators has the class and the table of all operators; registration what defines them and gives
them kernels; schema makes a schema of annotations.

aten_names has what PyTorch's own functions are made of.
"""

from frontend.library.operators import Operator
from frontend.library.registration import (
    CustomOpDef,
    Library,
    custom_op,
    define,
    fallthrough_kernel,
    get_ctx,
    impl,
    impl_abstract,
    opcheck,
    register_autograd,
    register_fake,
    register_kernel,
    register_torch_dispatch,
    register_vmap,
    triton_op,
    wrap_triton,
)
from frontend.library.schema import infer_schema

__all__ = [
    "CustomOpDef", "Library", "Operator", "custom_op", "define", "fallthrough_kernel", "get_ctx",
    "impl", "impl_abstract", "infer_schema", "opcheck", "register_autograd", "register_fake",
    "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op", "wrap_triton",
]  # fmt: skip

"""`torch.utils.cpp_extension`: extensions in C++ are not here; each name raises when it is used."""

from frontend.namespace.stubs import stubs

globals().update(stubs("utils.cpp_extension"))
CUDA_HOME = ROCM_HOME = None

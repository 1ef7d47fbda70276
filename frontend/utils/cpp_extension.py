"""`torch.utils.cpp_extension`: extensions in C++ are not here; each name raises when it is used."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "utils.cpp_extension",
        "BuildExtension CppExtension CUDAExtension include_paths load load_inline",
        "C++ extensions need PyTorch; torch.library.custom_op registers a function of Python",
    )
)
CUDA_HOME = ROCM_HOME = None

"""`torch.utils.benchmark`: not here; each name raises NotImplementedError when used."""

from frontend.namespace.absent import absent_names

_ABSENT = absent_names(
    "utils.benchmark",
    "CallgrindStats Compare Fuzzer Measurement Timer",
    "time with timeit, or torch.profiler for single operations",
)
globals().update(_ABSENT)
__all__ = list(_ABSENT)

"""`torch.utils.benchmark`: not here; each name raises NotImplementedError when used."""

from frontend.absent import absent_names

__all__ = ["Compare", "Fuzzer", "Measurement", "Timer"]

globals().update(
    absent_names(
        "utils.benchmark",
        "CallgrindStats Compare Fuzzer Measurement Timer",
        "time with timeit, or torch.profiler for single operations",
    )
)

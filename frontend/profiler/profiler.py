"""`torch.profiler.profiler`: where PyTorch defines the profiler."""

from frontend.profiler import *  # noqa: F403

"""`torch.distributed.elastic.multiprocessing`."""

from frontend.distributed.elastic.multiprocessing import errors as errors

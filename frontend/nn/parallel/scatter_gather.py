"""`torch.nn.parallel.scatter_gather`: inputs to several devices, which are not here."""

from frontend.nn.parallel import gather as gather
from frontend.nn.parallel import scatter as scatter

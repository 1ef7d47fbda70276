"""`torch.utils.data._utils`: where PyTorch keeps what its loader is made of."""

from frontend.utils.data import collate as collate
from frontend.utils.data import worker as worker

"""`torch.utils.data._utils`: where PyTorch keeps what its loader is made of."""

from frontend.utils.data._utils import collate as collate
from frontend.utils.data._utils import fetch as fetch
from frontend.utils.data._utils import pin_memory as pin_memory
from frontend.utils.data._utils import worker as worker

MP_STATUS_CHECK_INTERVAL = 5.0
"""Seconds between two looks of an idle worker at whether its parent lives."""

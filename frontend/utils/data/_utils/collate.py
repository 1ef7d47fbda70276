"""`torch.utils.data._utils.collate`."""

from frontend.utils.data.collate import default_collate as default_collate
from frontend.utils.data.collate import default_convert as default_convert

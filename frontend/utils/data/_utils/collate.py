"""`torch.utils.data._utils.collate`: items to batches, each type by a function of its own."""

import re

from frontend.utils.data.collate import collate as collate
from frontend.utils.data.collate import collate_float_fn as collate_float_fn
from frontend.utils.data.collate import collate_int_fn as collate_int_fn
from frontend.utils.data.collate import collate_numpy_array_fn as collate_numpy_array_fn
from frontend.utils.data.collate import collate_numpy_scalar_fn as collate_numpy_scalar_fn
from frontend.utils.data.collate import collate_str_fn as collate_str_fn
from frontend.utils.data.collate import collate_tensor_fn as collate_tensor_fn
from frontend.utils.data.collate import default_collate as default_collate
from frontend.utils.data.collate import default_collate_fn_map as default_collate_fn_map
from frontend.utils.data.collate import default_convert as default_convert

np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)

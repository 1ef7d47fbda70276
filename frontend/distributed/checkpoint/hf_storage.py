"""`torch.distributed.checkpoint.hf_storage`: of parts in safetensors files."""

from frontend.namespace.stubs import stubs

globals().update(stubs("distributed.checkpoint.hf_storage"))

"""`torch.distributed.utils`: nothing that scripts need; the name can be imported."""

"""`torch.distributed.elastic`: what scripts import of the launcher."""

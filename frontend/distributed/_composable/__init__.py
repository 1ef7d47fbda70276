"""`torch.distributed._composable`: parallel training as functions of a Module."""

"""`torch.utils.data._utils.signal_handling`: workers that end are seen by their pipes."""

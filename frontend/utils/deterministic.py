"""`torch.utils.deterministic`."""

fill_uninitialized_memory: bool = True
"""May be set, and changes nothing: `empty` never hands out uninitialised memory."""

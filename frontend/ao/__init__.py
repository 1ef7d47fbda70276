"""`torch.ao`: quantization, which is not here (`torch.ao.quantization` raises when used)."""

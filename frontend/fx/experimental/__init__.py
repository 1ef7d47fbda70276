"""`torch.fx.experimental`: graphs of operators."""

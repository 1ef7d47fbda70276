"""`torch.fx.passes`: what is computed about a graph of Python calls."""

"""`torch.onnx.symbolic_opset12`: what an export would call; each raises NotImplementedError."""

from frontend.onnx.symbolic_absent import absent

dropout = masked_fill = select = softmax = squeeze = unsqueeze = absent

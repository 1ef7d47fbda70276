"""`torch.backends.quantized`: quantized layers have one way to compute, whichever is named. What a
QConfig chooses for an engine stands in torch.ao.quantization.get_default_qconfig."""

engine = "x86"
supported_engines: list[str] = ["qnnpack", "none", "onednn", "x86", "fbgemm"]

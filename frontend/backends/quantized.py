"""There is no quantization."""

engine = "none"
supported_engines: list[str] = ["none"]

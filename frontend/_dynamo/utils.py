"""`torch._dynamo.utils`."""


def is_compile_supported(device_type: str) -> bool:
    """Whether `compile` makes code for the device: for the CPU."""
    return device_type == "cpu"

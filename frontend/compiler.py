"""`torch.compiler`: compiling, and asking whether that is what happens."""

from frontend.compiled.compiler import compile, disable, is_compiling

__all__ = ["compile", "disable", "is_compiling"]

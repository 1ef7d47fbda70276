"""MultiheadAttention has one path, which is the fast one."""

from frontend.namespace.stubs import stubs

globals().update(stubs("backends.mha"))

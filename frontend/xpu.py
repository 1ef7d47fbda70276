"""`frontend.xpu`: Intel's GPU is not there."""

from frontend.namespace.stubs import stubs

globals().update(stubs("xpu"))

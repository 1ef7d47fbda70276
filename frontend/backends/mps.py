"""Apple's Metal is not there."""

from frontend.namespace.stubs import stubs

globals().update(stubs("backends.mps"))

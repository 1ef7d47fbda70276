"""`torch.quasirandom`: not here."""

from frontend.namespace.stubs import stubs

globals().update(stubs("quasirandom"))

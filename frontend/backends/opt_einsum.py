"""opt_einsum is not used: `einsum` contracts in an order of its own. Switches may be set."""

from frontend.namespace.stubs import stubs

globals().update(stubs("backends.opt_einsum"))
enabled = False
strategy: str | None = None

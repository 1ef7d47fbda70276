"""opt_einsum is not used: `einsum` contracts in an order of its own. Switches may be set."""

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """False."""
    return False

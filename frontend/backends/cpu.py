"""The CPU."""


def get_cpu_capability() -> str:
    """ "DEFAULT": code is compiled for the processor there is, not chosen from several."""
    return "DEFAULT"

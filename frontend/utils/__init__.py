"""`frontend.utils`: what stands beside the network; `frontend.utils.data` feeds it."""

from frontend.utils import data

__all__ = ["data"]

"""`torch.nn.modules.channelshuffle`."""

from frontend.nn.modules.pixelshuffle import ChannelShuffle

__all__ = ["ChannelShuffle"]

"""What carries bytes between processes: the one interface of MPI and of the local transport.

in : (peer, channel, bytes); peers are ranks of the whole world
out: messages that are `done`, and who has left

Messages of one sender on one channel arrive in the order in which they were sent; channels are
independent of each other. A send may read its bytes until it is done, a receive writes into memory
of exactly the message's length. Nothing moves but inside of `poll`, and nothing waits anywhere
else; collectives (`exchange`) and what waits for them (`world`) are above this, and the same for
all transports.
"""

from __future__ import annotations

from typing import Any, Protocol

LONGEST_REASON = 400
"""Bytes of what a process that leaves can say."""
SPINNING = 2e-3
"""Seconds without anything new after which a wait sleeps. Until then it gives the processor to
whoever has work, and looks again: to be woken costs more than ranks are mostly apart."""


class Message(Protocol):
    """A message under way."""

    @property
    def done(self) -> bool:
        """Whether its bytes were taken over, or have arrived."""


class Transport(Protocol):
    """A rank's end of the connections to all others. `left` says of ranks that take part no longer
    why that is; what they had sent before can still be received."""

    name: str
    rank: int
    size: int
    left: dict[int, str]

    def send(self, peer: int, channel: int, data: Any) -> Message:
        """Send the bytes of an array of uint8."""

    def receive(self, peer: int, channel: int, into: Any) -> Message:
        """Receive into an array of uint8."""

    def waiting(self, channel: int) -> int | None:
        """A rank of which a message on this channel has come that nobody receives yet."""

    def poll(self, idle: float) -> None:
        """Let messages move. `idle`: for how many seconds there was nothing to do, so that a wait
        gives the processor away."""

    def leave(self, reason: str) -> None:
        """Tell all others that this rank takes part no longer."""

    def end(self, status: int) -> None:
        """After `leave` of a process that failed: have the others end, where that needs help."""

    def close(self) -> None:
        """Give back what the connections hold."""

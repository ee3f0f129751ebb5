"""Where the body of a response goes, for those who write it when there is something to write."""

from typing import Final, Protocol

# An extension of ASGI: asks the server, after the head of a response, for the outlet of its body,
# which it gives to the callable "take".
OUTLET_MESSAGE: Final = "mintscope.outlet"


class Outlet(Protocol):
    """The body of one response; nothing waits for the client to read it."""

    def write(self, chunk: bytes) -> None:
        """Send *chunk*, not empty; to a client that is gone nothing."""

    def end(self, chunk: bytes) -> None:
        """Send *chunk*, the last one; at once as far as the client reads."""

    def is_behind(self) -> bool:
        """Say whether the client has yet to read some of what was written."""

    def is_gone(self) -> bool:
        """Say whether the client has left, or the body was ended."""

    async def wait_gone(self) -> None:
        """Return once `is_gone`; of a client that leaves without a word it may not be known."""


class NoOutlet:
    """The outlet of a response whose client has left before it began."""

    def write(self, chunk: bytes) -> None:
        """Send nothing."""

    def end(self, chunk: bytes) -> None:
        """Send nothing."""

    def is_behind(self) -> bool:
        """Nothing was written."""
        return False

    def is_gone(self) -> bool:
        """Say so: it never was there."""
        return True

    async def wait_gone(self) -> None:
        """Return at once."""


NO_OUTLET: Final = NoOutlet()

"""Stopping in two steps, so that a balancer has time to send clients elsewhere."""

from typing import Final

from mintscope.base.errors import ServiceUnavailable

STOPS: Final = "this process is about to stop"


class Draining:
    """Whether this process has been told to stop, and still serves.

    lasts_s   how long it says that it is not ready before it stops listening; 0: not at all
    """

    def __init__(self, lasts_s: float = 0.0) -> None:
        self.lasts_s = lasts_s
        self.has_begun = False

    async def expect_not_begun(self) -> None:
        """Raise ServiceUnavailable once it has begun."""
        if self.has_begun:
            raise ServiceUnavailable(STOPS)

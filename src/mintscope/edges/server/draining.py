"""Stopping in two steps, so that a balancer has time to send clients elsewhere."""

from collections.abc import Callable
from typing import Final

from mintscope.base.errors import ServiceUnavailable

STOPS: Final = "this process is about to stop"


class Draining:
    """Whether this process has been asked to stop, and still serves.

    lasts_s   how long it says that it is not ready before it stops listening; 0: not at all
    at_begin  called when it is asked to stop
    at_end    called when it stops listening, to end responses that have no end of their own
    """

    def __init__(
        self,
        lasts_s: float = 0.0,
        *,
        at_begin: Callable[[], None] = lambda: None,
        at_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.lasts_s = lasts_s
        self.at_begin = at_begin
        self.at_end = at_end
        self.has_begun = False

    async def expect_not_begun(self) -> None:
        """Raise ServiceUnavailable once it has begun."""
        if self.has_begun:
            raise ServiceUnavailable(STOPS)

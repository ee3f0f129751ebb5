"""When the next request to a node may start: after its own limit, later with every failure."""

from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from typing import Final

from mintscope.base.clock import Clock

BACKOFF_S: Final = 0.25
BACKOFF_S_MAX: Final = 10.0
RETRY_AFTER_S_MAX: Final = 60.0


class Pace:
    """The pace of one client: a limit that a node names holds for all requests to it."""

    def __init__(
        self, clock: Clock, jitter: Callable[[], float], sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._clock = clock
        self._jitter = jitter
        self._sleep = sleep
        self._not_before_s = 0.0

    def postpone(self, wait_s: float) -> None:
        """Let no request start for *wait_s*."""
        wait_s = min(wait_s, RETRY_AFTER_S_MAX)
        self._not_before_s = max(self._not_before_s, self._clock.monotonic_s() + wait_s)

    async def wait(self, attempt: int) -> None:
        """Wait until a request may start, longer with every failed *attempt*."""
        backoff_s = min(BACKOFF_S_MAX, BACKOFF_S * 2 ** (attempt - 1)) if attempt else 0.0
        wait_s = max(
            self._not_before_s - self._clock.monotonic_s(), backoff_s * (1 + self._jitter()) / 2
        )
        if wait_s > 0:
            await self._sleep(wait_s)


def retry_after_s(text: str, now_s: float) -> float:
    """Return what a Retry-After header asks to wait, in either form; 0 if it asks nothing."""
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return parsedate_to_datetime(text).timestamp() - now_s
    except (ValueError, OverflowError):
        return 0.0

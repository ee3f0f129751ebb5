"""When the next request to a node may start, and how long to wait for one that gives no answer."""

from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from typing import Final

import structlog

from mintscope.base.clock import Clock

log = structlog.get_logger()

BACKOFF_S: Final = 0.25
BACKOFF_S_MAX: Final = 10.0
RETRY_AFTER_S_MAX: Final = 60.0
FAILURE_PAUSE_S: Final = 0.5
FAILURE_PAUSE_S_MAX: Final = 30.0

Sleep = Callable[[float], Awaitable[None]]


class Trouble(Exception):
    """One attempt failed; another may not.  *code* is the one that the node answered, if any."""

    def __init__(self, what: str, retry_after_s: float = 0.0, *, code: int = 0) -> None:
        super().__init__(what)
        self.retry_after_s = retry_after_s
        self.code = code


class Throttle:
    """When one client may ask: a limit that a node names holds for all requests to it."""

    def __init__(self, clock: Clock, jitter: Callable[[], float], sleep: Sleep) -> None:
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


class Patience:
    """Waits while a node gives no usable answers, longer each time in a row."""

    def __init__(self, sleep: Sleep) -> None:
        self._sleep = sleep
        self._pause_s = FAILURE_PAUSE_S

    async def wait(self, failure: Exception, event: str = "chain_unreachable") -> None:
        """Log *failure* as *event* and pause."""
        log.warning(event, reason=str(failure), pause_s=self._pause_s)
        await self._sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, FAILURE_PAUSE_S_MAX)

    def renew(self) -> None:
        """Begin with the shortest pause again: the node has answered."""
        self._pause_s = FAILURE_PAUSE_S


def retry_after_s(text: str, now_s: float) -> float:
    """Return what a Retry-After header asks to wait, in either form; 0 if it asks nothing."""
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return parsedate_to_datetime(text).timestamp() - now_s
    except (ValueError, OverflowError):
        return 0.0

"""Computes the pauses between a client's requests: those that the service names, and its own."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

BACKOFF_S: Final = 0.5  # the longest pause before the first retry; doubled for each later retry
DOUBLINGS_MAX: Final = 4  # to 8 s
ROOM: Final = re.compile(r'"([^"]{1,64})"\s*;\s*r=(\d{1,9})\s*;\s*t=(\d{1,6})')


def retry_after_s(headers: Mapping[str, str], *, now_ms: int) -> float | None:
    """Return the seconds in `Retry-After`, or until the date in it; None if it has neither."""
    text = headers.get("Retry-After", "")
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        until_s = parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(until_s - now_ms / 1000, 0.0)


def backoff_s(repetition: int, share: float) -> float:
    """Return the seconds to wait before the retry *repetition*, counted from 0.

    share    a random number from 0 to 1, so that clients whose requests failed at the same time do
             not retry at the same time
    """
    # The exponent is bounded, because a float overflows after 1,024 retries.
    most_s: float = BACKOFF_S * 2 ** min(repetition, DOUBLINGS_MAX)
    return most_s * (1 + share) / 2


class Pacing:
    """The times from which rate limits allow a request again, as `RateLimit` headers report them.

    A header has the name of the rate limit, the number of requests that it still allows, and the
    seconds until it allows more.  The limit of an endpoint is known after its first answer; several
    endpoints may share a limit.
    """

    def __init__(self) -> None:
        self._limits: dict[str, str] = {}  # name of the limit, by endpoint
        self._free_at_s: dict[str, float] = {}  # time of the next allowed request, by limit

    def hear(self, name: str, headers: Mapping[str, str], *, now_s: float) -> None:
        """Store the rate limit in *headers*, if any, which came from the endpoint *name*."""
        said = ROOM.search(headers.get("RateLimit", ""))
        if said is None:
            return
        limit = said[1]
        remaining = int(said[2])
        reset_s = int(said[3])
        # In this order, because another thread may look up the time of each stored limit.
        self._free_at_s[limit] = now_s + (0 if remaining else reset_s)
        self._limits[name] = limit

    def wait_s(self, name: str, *, now_s: float) -> float:
        """Return the seconds to wait before a request to the endpoint *name*; 0: no wait."""
        limit = self._limits.get(name)
        return 0.0 if limit is None else max(self._free_at_s[limit] - now_s, 0.0)

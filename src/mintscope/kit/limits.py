"""Rate limits: for each key, a moving window of monotonic time.

No span of *window_s* seconds contains more than *count* admitted requests of one key, whenever the
span begins.  `MovingWindow` ensures this for a bounded number of active keys.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv6Network
from math import ceil
from typing import Final, Protocol

import msgspec

from mintscope.kit.clock import Clock

KEYS_MAX: Final = 20_000  # the most keys of a window; no process serves so many accounts a minute
IPV6_PREFIX: Final = 64  # one customer's network, with any number of addresses
IPV6_SITE_PREFIX: Final = 48  # some customers have a /48, which contains 65,536 networks of /64
SITE_SHARES: Final = 4  # the limit of a site is this many times that of a client

# An address, a verified account or API key, or a constant; never an unverified name.
LimitKey = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """At most *count* requests in any *window_s* seconds; *name* is sent to clients."""

    name: str
    count: int
    window_s: int


class Admitted(msgspec.Struct, frozen=True, gc=False):
    """A request was admitted by a rate limit."""

    remaining: int  # number of further requests that may proceed now
    reset_s: int  # seconds until the limit allows one more


class Denied(msgspec.Struct, frozen=True, gc=False):
    """The request was refused and not counted; retry after *retry_after_s* (>= 1)."""

    retry_after_s: int


def site_key(client: str) -> str:
    """Return the IPv6 /48 that contains *client*, an IPv6 /64; return other texts unchanged."""
    if not client.endswith(f"/{IPV6_PREFIX}"):
        return client
    return str(IPv6Network(client).supernet(new_prefix=IPV6_SITE_PREFIX))


def of_a_site(limit: Limit) -> Limit:
    """Return the limit for all clients of an IPv6 /48, which is SITE_SHARES times that of one."""
    return replace(limit, name=f"{limit.name} of a site", count=SITE_SHARES * limit.count)


class Limiter(Protocol):
    """Counts requests against one limit, separately for each key."""

    limit: Limit

    async def take(self, key: LimitKey) -> Admitted | Denied:
        """Admit and count one request of *key* if the limit allows it."""

    async def give_back(self, key: LimitKey) -> None:
        """Reduce the count of *key* by one admitted request, if one is still counted."""

    async def room(self, key: LimitKey) -> int:
        """Return the number of further requests of *key* that the limit allows now; count none."""


async def take_all(windows: Sequence[tuple[Limiter, LimitKey]]) -> Denied | None:
    """Count one request in all of *windows*, or in none; return the denial, or None if admitted.

    windows   rate limits, and the key whose requests each of them counts
    """
    for number, (window, key) in enumerate(windows):
        verdict = await window.take(key)
        if isinstance(verdict, Denied):
            # A refused request must not count against the other limits.
            for taken, its_key in windows[:number]:
                await taken.give_back(its_key)
            return verdict
    return None


class Limits(Protocol):
    """Creates the rate limiters of a process."""

    def limiter(self, limit: Limit, *, window: str | None = None) -> Limiter:
        """Return a limiter whose counts have the name *window*; None: the name of *limit*.

        Limiters with the same name share their counts.  Raises ValueError if another limit has the
        name.
        """


class MemoryLimits:
    """Creates rate limiters whose counts are in the memory of this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._windows: dict[str, MovingWindow] = {}

    def limiter(self, limit: Limit, *, window: str | None = None) -> Limiter:
        """Return the limiter whose counts have the name *window*; None: the name of *limit*.

        Raises ValueError if another limit has the name.
        """
        name = window or limit.name
        made = self._windows.setdefault(name, MovingWindow(limit, self._clock))
        if made.limit != limit:
            raise ValueError(f"window {name!r}: expected its limit {made.limit}, got {limit}")
        return made

    def change(self, limit: Limit) -> None:
        """Apply the changed *limit* from now on, without resetting counts.

        The limit for all clients of an IPv6 /48, which depends on *limit*, changes, too.
        """
        for changed in (limit, of_a_site(limit)):
            for window in self._windows.values():
                if window.limit.name == changed.name:
                    window.limit = changed


class MovingWindow:
    """A Limiter in memory, exact for up to half of *keys_max* active keys.

    Keys are in two generations.  After each window the older generation is dropped, the younger one
    takes its place, and an empty one begins.  A dropped key was not used for a whole window, so no
    current count is lost.  With more active keys, generations are dropped sooner, and the keys used
    least recently start with a count of 0 again.
    """

    def __init__(self, limit: Limit, clock: Clock, *, keys_max: int = KEYS_MAX) -> None:
        self.limit = limit
        self._clock = clock
        self._generation_keys_max = keys_max // 2
        self._young: dict[LimitKey, array[float]] = {}
        self._old: dict[LimitKey, array[float]] = {}
        self._turned_at = clock.monotonic_s()

    async def take(self, key: LimitKey) -> Admitted | Denied:
        """Admit and count one request of *key* if the limit allows it."""
        return self.take_now(key)

    async def give_back(self, key: LimitKey) -> None:
        """Remove the newest admitted request of *key* from the count, if one is still counted."""
        self.give_back_now(key)

    async def room(self, key: LimitKey) -> int:
        """Return the number of further requests of *key* that the limit allows now; count none."""
        read_at = self._clock.monotonic_s()
        admitted = self._young.get(key) or self._old.get(key) or ()
        counted = sum([read_at - at < self.limit.window_s for at in admitted])
        return max(0, self.limit.count - counted)

    def take_now(self, key: LimitKey) -> Admitted | Denied:
        """Admit and count one request of *key* if the limit allows it; not a coroutine."""
        now = self._clock.monotonic_s()
        window_s = self.limit.window_s
        admitted = self._young.get(key) or self._admitted(key, now)
        while admitted and now - admitted[0] >= window_s:
            del admitted[0]
        if len(admitted) >= self.limit.count:
            return Denied(ceil(window_s - (now - admitted[0])))
        admitted.append(now)
        return Admitted(self.limit.count - len(admitted), ceil(window_s - (now - admitted[0])))

    def give_back_now(self, key: LimitKey) -> None:
        """Remove the newest admitted request of *key* from the count; not a coroutine."""
        admitted = self._young.get(key) or self._old.get(key)
        if not admitted:
            return
        admitted.pop()
        if not admitted:  # store no key whose count is 0
            self._young.pop(key, None)
            self._old.pop(key, None)

    def is_counting(self, key: LimitKey) -> bool:
        """Return whether any admitted request of *key* is still counted."""
        admitted = self._young.get(key) or self._old.get(key)
        if not admitted:
            return False
        return self._clock.monotonic_s() - admitted[-1] < self.limit.window_s

    def _admitted(self, key: LimitKey, now: float) -> "array[float]":
        """Return the list of the times at which requests of *key* were admitted, oldest first.

        The list is the stored one: a time that the caller adds is counted.
        """
        admitted = self._young.get(key)
        if admitted is None:
            if (
                now - self._turned_at >= self.limit.window_s
                or len(self._young) >= self._generation_keys_max
            ):
                self._old = self._young
                self._young = {}
                self._turned_at = now
            admitted = self._old.pop(key, None) or array("d")
            self._young[key] = admitted
        return admitted

"""Rate limits that many processes count together, exact while their store answers.

While it does not, each of N processes admits a share of its own: the limit / N, and at least 1.
"""

from dataclasses import replace
from hashlib import blake2b
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.limits import Admitted, Denied, Limit, LimitKey, MovingWindow
from mintscope.base.metrics import LIMITS_DECIDED_ALONE
from mintscope.edges.storage.limit_batches import US, LimitBatches, Taken, now_us

KEY_BYTES: Final = 16
REFUSALS_MAX: Final = 20_000
ASK_AGAIN_US: Final = US  # another process may have given an admission back


class SharedLimits:
    """Implements Limits: windows are in a store; *replicas* processes share it."""

    def __init__(self, batches: LimitBatches, clock: Clock, *, replicas: int) -> None:
        self._batches = batches
        self._clock = clock
        self._replicas = replicas
        self._windows: dict[str, SharedWindow] = {}

    def limiter(self, limit: Limit, *, window: str | None = None) -> "SharedWindow":
        """Return the window of that name, which is the same in every process."""
        name = window or limit.name
        made = self._windows.get(name)
        if made is None:
            share = replace(limit, count=max(1, limit.count // self._replicas))
            alone = MovingWindow(share, self._clock)
            made = SharedWindow(name, limit, self._batches, self._clock, alone=alone)
            self._windows[name] = made
        if made.limit != limit:
            raise ValueError(f"window {name!r}: expected its limit {made.limit}, got {limit}")
        return made

    async def aclose(self) -> None:
        """Let go of the store."""
        await self._batches.aclose()


class SharedWindow:
    """A Limiter whose admissions are in a store.

    A refused key is not asked for again while it must be refused, at most for a second.
    alone   decides while the store is away
    """

    def __init__(
        self, name: str, limit: Limit, batches: LimitBatches, clock: Clock, *, alone: MovingWindow
    ) -> None:
        self.limit = limit
        self._name = name
        self._window_us = limit.window_s * US
        self._batches = batches
        self._clock = clock
        self._alone = alone
        self._refused: dict[bytes, tuple[int, int]] = {}  # until when; when to ask again

    async def take(self, key: LimitKey) -> Admitted | Denied:
        """Admit one request of *key* if its window has room, and count it."""
        stored = self._stored_key(key)
        now = now_us(self._clock)
        until, ask_again = self._refused.get(stored, (0, 0))
        if now < ask_again:
            return Denied(_ceil_s(until - now))
        settled = await self._ask(stored, is_take=True)
        if settled is None:
            LIMITS_DECIDED_ALONE.inc()
            return self._alone.take_now(key)
        if settled.room_left >= 0:
            return Admitted(settled.room_left, _ceil_s(settled.reset_us))
        self._remember(stored, settled)
        return Denied(_ceil_s(settled.reset_us))

    async def give_back(self, key: LimitKey) -> None:
        """Count one admitted request of *key* less, if any still counts.

        Admissions made here without the store are given back first.
        """
        if self._alone.is_counting(key):
            self._alone.give_back_now(key)
            return
        stored = self._stored_key(key)
        await self._ask(stored, is_take=False)
        self._refused.pop(stored, None)

    async def _ask(self, stored: bytes, *, is_take: bool) -> Taken | None:
        return await self._batches.ask(stored, self.limit.count, self._window_us, is_take=is_take)

    def _remember(self, stored: bytes, settled: Taken) -> None:
        if len(self._refused) >= REFUSALS_MAX:
            self._refused.clear()
        until = settled.sent_us + settled.reset_us
        self._refused[stored] = (until, min(until, settled.sent_us + ASK_AGAIN_US))

    def _stored_key(self, key: LimitKey) -> bytes:
        """Return the key as it is stored: no address of a client or an e-mail is in the store."""
        text = f"{self._name}\0{type(key).__name__}\0{key}"
        return blake2b(text.encode(errors="surrogatepass"), digest_size=KEY_BYTES).digest()


def _ceil_s(us: int) -> int:
    return max(1, -(-us // US))

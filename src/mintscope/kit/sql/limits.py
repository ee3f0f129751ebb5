"""Rate limits that several processes share; they are exact while their store answers.

Requests go to the store in batches, one batch at a time.  If the store fails twice, or does not
answer in time, each of N processes admits 1/N of each limit, but at least 1, and only tests whether
the store answers again.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import structlog

from mintscope.kit.clock import Clock
from mintscope.kit.limits import Admitted, Denied, Limit, LimitKey, MovingWindow
from mintscope.kit.metrics import LIMITS_DECIDED_ALONE, LIMITS_SHARED

BATCH_MAX: Final = 512
WAITING_MAX: Final = 8_192
PATIENCE_S: Final = 1.0
LOOKS: Final = 4  # parts of the time limit, so that a blocked event loop loses only one
PAUSE_S: Final = 0.25
PAUSE_S_MAX: Final = 2.0
US: Final = 1_000_000

log = structlog.get_logger()


class LimitStoreAway(Exception):
    """The store of rate limits does not respond."""


class AskedWindow(NamedTuple):
    """A change of a rate limit's count: subtract *returned* requests, then add *taken* new ones."""

    key: bytes
    admitted_max: int
    window_us: int
    returned: int
    taken: int


class FoundWindow(NamedTuple):
    """The state of a rate limit in the shared store, when a request asks for it.

    held     the number of requests that count
    age_us   the age of the oldest of them in microseconds; 0 if *held* is 0
    """

    held: int
    age_us: int


class WindowStore(Protocol):
    """Counts the requests of rate limits for all processes, by a clock of its own."""

    async def settle(self, asked: Sequence[AskedWindow]) -> Sequence[FoundWindow]:
        """Change the counts of all *asked* rate limits; return the state of each.

        In each limit, requests that were given back are subtracted first; then the state is read;
        then new requests are counted.  All keys must be different.  Raises LimitStoreAway; the next
        call then connects again.
        """

    async def aclose(self) -> None:
        """Close the connection."""


# The change of a count: 1 takes, -1 gives back, 0 only reads.
Change: TypeAlias = Literal[-1, 0, 1]


class Settled(NamedTuple):
    """The state of a rate limit in the shared store, as the answer to one request."""

    room_left: int  # further requests that the limit allows; below 0 if one was refused
    reset_us: int  # microseconds until the oldest admission no longer counts
    sent_us: int  # time at which the request was sent, by the monotonic clock of this process


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    key: bytes
    count: int
    window_us: int
    change: Change
    reported: asyncio.Future[Settled | None]


@dataclass(eq=False, repr=False)
class LimitBatches:
    """Sends the requests of all rate limiters of this process to a shared store, in batches."""

    store: WindowStore
    clock: Clock
    _: KW_ONLY
    patience_s: float = PATIENCE_S  # time limit for an answer of the store
    pause_s: float = PAUSE_S  # before the first test of the store; doubles up to PAUSE_S_MAX
    is_away: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._look_s = self.patience_s / LOOKS
        self._waiting: list[_Question] = []
        self._work: asyncio.Task[None] | None = None
        LIMITS_SHARED.set(1)

    async def ask(self, key: bytes, count: int, window_us: int, change: Change) -> Settled | None:
        """Add *change* to the count of *key* in the shared store; return the state of the limit.

        change   1 counts a request, -1 takes one back, 0 only reads
        count    the number of requests that the limit allows in *window_us* microseconds

        Returns None if the store does not respond, or if too many requests wait.
        """
        if self.is_away or len(self._waiting) >= WAITING_MAX:
            return None
        reported: asyncio.Future[Settled | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Question(key, count, window_us, change, reported))
        if self._work is None:
            self._work = asyncio.create_task(self._run(), name="limits")
        return await reported

    async def aclose(self) -> None:
        """Stop sending requests, and close the connection."""
        work = self._work
        self._work = None
        if work is not None:
            work.cancel()
            await asyncio.wait((work,))
        _tell_none(self._waiting)
        await self.store.aclose()

    async def _run(self) -> None:
        while self._waiting:
            # Cancelled requests are left out.
            batch = [each for each in self._waiting[:BATCH_MAX] if not each.reported.done()]
            del self._waiting[:BATCH_MAX]
            try:
                await self._ask_for(batch)
            # Also after an error or a cancellation: no request may wait forever.
            finally:
                _tell_none(batch)
        self._work = None

    async def _ask_for(self, batch: list[_Question]) -> None:
        """Send *batch* to the store, and answer it; if the store is away, wait until it is back."""
        sent_us = now_us(self.clock)
        by_key = _by_key(batch)
        found = await self._settle([_asked(questions) for questions in by_key.values()])
        if found is None:
            _tell_none(batch)
            await self._be_away()
            return
        for questions, each in zip(by_key.values(), found, strict=True):
            _tell(questions, each, sent_us)

    async def _settle(self, asked: Sequence[AskedWindow]) -> Sequence[FoundWindow] | None:
        """Change counts in the store, with one repetition; return None if it is unreachable."""
        found = await self._call(asked)
        if isinstance(found, LimitStoreAway):
            # The first outcome is unknown: taking twice is safe, giving back twice is not.
            found = await self._call([each._replace(returned=0) for each in asked])
        if isinstance(found, BaseException):
            log.warning("limits_away", why=str(found) or type(found).__name__)
            return None
        return found

    async def _call(self, asked: Sequence[AskedWindow]) -> Sequence[FoundWindow] | BaseException:
        call = asyncio.ensure_future(self.store.settle(asked))
        try:
            for _ in range(LOOKS):
                await asyncio.wait((call,), timeout=self._look_s)
                if call.done():
                    return call.exception() or call.result()
        finally:
            call.cancel()
        return TimeoutError(f"expected an answer within {LOOKS * self._look_s} s")

    async def _be_away(self) -> None:
        """Answer all requests with None until a test finds that the store answers again."""
        self.is_away = True
        LIMITS_SHARED.set(0)
        _tell_none(self._waiting)
        pause_s = self.pause_s
        while True:
            await asyncio.sleep(pause_s)
            if not isinstance(await self._call(()), BaseException):
                break
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
        self.is_away = False
        LIMITS_SHARED.set(1)
        log.info("limits_back")


def now_us(clock: Clock) -> int:
    """Return the monotonic time of *clock* in microseconds."""
    return round(clock.monotonic_s() * US)


def _by_key(batch: Sequence[_Question]) -> dict[bytes, list[_Question]]:
    by_key: dict[bytes, list[_Question]] = {}
    for each in batch:
        by_key.setdefault(each.key, []).append(each)
    return by_key


def _asked(questions: Sequence[_Question]) -> AskedWindow:
    first = questions[0]
    returned = sum([each.change < 0 for each in questions])
    taken = sum([each.change > 0 for each in questions])
    return AskedWindow(first.key, first.count, first.window_us, returned, taken)


def _tell(questions: Sequence[_Question], found: FoundWindow, sent_us: int) -> None:
    room_left = questions[0].count - found.held
    reset_us = questions[0].window_us - found.age_us
    for each in questions:
        room_left -= each.change > 0
        if not each.reported.done():
            each.reported.set_result(Settled(room_left, reset_us, sent_us))


def _tell_none(questions: list[_Question]) -> None:
    for each in questions:
        if not each.reported.done():
            each.reported.set_result(None)
    questions.clear()


KEY_BYTES: Final = 16
REFUSALS_MAX: Final = 20_000
ASK_AGAIN_US: Final = US  # other processes may give admissions back, so ask again after this time


class SharedLimits:
    """Creates rate limiters whose counts are in a store that *replicas* processes share.

    While the store is unreachable, each process admits its share of the limit.
    """

    def __init__(self, batches: LimitBatches, clock: Clock, *, replicas: int) -> None:
        self._batches = batches
        self._clock = clock
        self._replicas = replicas
        self._windows: dict[str, SharedWindow] = {}

    def limiter(self, limit: Limit, *, window: str | None = None) -> "SharedWindow":
        """Return the limiter whose counts have the name *window* in all processes.

        None stands for the name of *limit*.  Raises ValueError if another limit has the name.
        """
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
        """Stop asking the shared store, and close the connection to it."""
        await self._batches.aclose()


class SharedWindow:
    """A Limiter that counts requests in a store that several processes share.

    A key without room is refused for up to a second without another request to the store.

    alone   the window in memory that decides while the store is unreachable
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
        self._refused: dict[
            bytes, tuple[int, int]
        ] = {}  # end of the refusal, and time of the next request to the store, by stored key

    async def take(self, key: LimitKey) -> Admitted | Denied:
        """Admit and count one request of *key* if the limit allows it."""
        stored = self._stored_key(key)
        now = now_us(self._clock)
        until, ask_again = self._refused.get(stored, (0, 0))
        if now < ask_again:
            return Denied(_ceil_s(until - now))
        settled = await self._ask(stored, 1)
        if settled is None:
            LIMITS_DECIDED_ALONE.inc()
            return await self._alone.take(key)
        if settled.room_left >= 0:
            return Admitted(settled.room_left, _ceil_s(settled.reset_us))
        self._remember(stored, settled)
        return Denied(_ceil_s(settled.reset_us))

    async def give_back(self, key: LimitKey) -> None:
        """Undo the count of one admitted request of *key*, if one is still counted.

        Requests that were admitted while the store was away come first.
        """
        if self._alone.is_counting(key):
            await self._alone.give_back(key)
            return
        stored = self._stored_key(key)
        await self._ask(stored, -1)
        self._refused.pop(stored, None)

    async def room(self, key: LimitKey) -> int:
        """Return the number of further requests of *key* that the limit allows now; count none."""
        stored = self._stored_key(key)
        _, ask_again = self._refused.get(stored, (0, 0))
        if now_us(self._clock) < ask_again:
            return 0
        settled = await self._ask(stored, 0)
        if settled is None:
            LIMITS_DECIDED_ALONE.inc()
            return await self._alone.room(key)
        if settled.room_left <= 0:
            self._remember(stored, settled)
            return 0
        return settled.room_left

    async def _ask(self, stored: bytes, change: Change) -> Settled | None:
        return await self._batches.ask(stored, self.limit.count, self._window_us, change)

    def _remember(self, stored: bytes, settled: Settled) -> None:
        # A forgotten refusal costs one more request to the store.
        if len(self._refused) >= REFUSALS_MAX:
            self._refused.clear()
        until = settled.sent_us + settled.reset_us
        self._refused[stored] = (until, min(until, settled.sent_us + ASK_AGAIN_US))

    def _stored_key(self, key: LimitKey) -> bytes:
        """Return a hash of *key*, so that the store contains no addresses."""
        text = f"{self._name}\0{type(key).__name__}\0{key}"
        return blake2b(text.encode(errors="surrogatepass"), digest_size=KEY_BYTES).digest()


def _ceil_s(us: int) -> int:
    return max(1, -(-us // US))

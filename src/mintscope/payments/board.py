"""The one price at which everything is sold for a minute."""

from decimal import Decimal
from typing import Final, Protocol

from mintscope.clock import Clock
from mintscope.errors import PriceUnavailable
from mintscope.payments.price import Doubt, is_jump
from mintscope.payments.tariff import Tariff
from mintscope.primitives import UnixMs
from mintscope.quote import Quote

SNAPSHOT_S: Final = 60.0
RETRY_S: Final = 5.0  # how soon a source in doubt is asked again


class PriceSource(Protocol):
    """Whoever knows what the payment token is worth now."""

    async def read(self, now: UnixMs) -> Quote | Doubt:
        """Return the price, or why there is none; ends within its own time limit."""
        ...


class PinnedPrice:
    """A price that the operator has fixed: of a stable coin, or of a dev chain's token."""

    def __init__(self, usd: Decimal) -> None:
        self._usd = usd

    async def read(self, now: UnixMs) -> Quote | Doubt:
        """Return the same price, always."""
        return Quote(usd=self._usd, observed_at=now)


class PriceBoard:
    """Reads the source at most once a minute; the list and every demand in between agree.

    Requests that come while the source is being read use what there is.
    """

    def __init__(self, source: PriceSource, *, decimals: int, clock: Clock) -> None:
        self._source = source
        self._decimals = decimals
        self._clock = clock
        self._quote: Quote | None = None  # of now
        self._previous: Quote | None = None  # the last that was ever sold at
        self._read_again_s = 0.0
        self.doubt: Doubt | None = Doubt.NO_ANSWER

    async def tariff(self) -> Tariff:
        """Return the prices of this minute.

        Raises    PriceUnavailable
        """
        now_s = self._clock.monotonic_s()
        if now_s >= self._read_again_s:
            self._read_again_s = now_s + RETRY_S  # nobody else reads meanwhile
            await self._read()
        if self._quote is None:
            raise PriceUnavailable(
                "The payment token has no reliable price just now; nothing was charged."
                " Credit tokens go on working."
            )
        return Tariff(quote=self._quote, decimals=self._decimals)

    async def _read(self) -> None:
        found = await self._source.read(self._clock.now())
        if isinstance(found, Quote) and self._previous and is_jump(found, self._previous):
            found = Doubt.JUMP
        if isinstance(found, Doubt):
            self._quote, self.doubt = None, found
            return
        self._quote = self._previous = found
        self.doubt = None
        self._read_again_s = self._clock.monotonic_s() + SNAPSHOT_S

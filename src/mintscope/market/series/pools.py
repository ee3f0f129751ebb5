"""Pools and traders of a token, computed from its stored swaps.

Price move     in a pool with a constant product and the amount Q of the quote token, a purchase
               of X raises the price by (1 + X / Q) ** 2 - 1, and a sale of X lowers it by
               1 - (1 + X / Q) ** -2.  Fees are left out.  In a pool of another kind, the move is
               estimated by the same formulas with `StandingPool.depth` as Q, which is itself
               estimated from moves of the price
Trader         the signer, identified by the start of the address, which the log stores
Flow           traded USD, including trades that do not count as volume
Concentration  the shares of all flow that the largest trader has, and the ten largest together
Realised       gain of a trader on tokens that were bought and sold within the stored swaps: the
               lesser of both amounts, times the difference of the mean price of a sale and that of
               a purchase; network fees are left out

These are facts about a token; none of them is a score.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import msgspec

from mintscope.kit.primitives import MICRO_USD, Mint, Slot, UnixS
from mintscope.kit.time import DAY_S, HOUR_S, MINUTE_S
from mintscope.market.engine.crowd_book import CrowdRow
from mintscope.market.engine.pool_book import POOL_CANDLES_S, BookedPool, PoolRow, key_of
from mintscope.market.log import LogTip, PricedSwap, Waypoint
from mintscope.market.mint_facts import MintFacts
from mintscope.market.series.past import Moment, OutOfReach, PastMint
from mintscope.market.standing import AGREEMENT, Standing, StandingPool, counts_at, weights
from mintscope.market.standings import depth_of
from mintscope.market.timeframe import WIDTH_S, Timeframe, bucket
from mintscope.solana.blocks import DOLLARS, STAKING_TOKENS, WSOL


class SeriesCandle(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A candle that has a price; its fields are those of `log.CandleRow`.

    imported_volume   micro-USD of an imported candle, which has no sides and no swaps; None: the
                      candle was not imported
    """

    bucket: UnixS
    open: float
    high: float
    low: float
    close: float
    buy_volume: int
    sell_volume: int
    count: int
    open_sol: float | None
    high_sol: float | None
    low_sol: float | None
    close_sol: float | None
    imported_volume: int | None = None


class UnpricedVolume(NamedTuple):
    """The volume in a span without a price, in micro-USD.

    imported_volume   the volume of an imported candle, which has no price in SOL; None for other
                      spans
    """

    bucket: UnixS
    buy_volume: int
    sell_volume: int
    imported_volume: int | None = None


class AskedCandles(NamedTuple):
    """A request for stored candles: the newest *rows_max* that begin at *until* or earlier."""

    timeframe: Timeframe
    until: UnixS
    rows_max: int


class KeptCandles(msgspec.Struct, frozen=True, kw_only=True):
    """The stored candles of one timeframe of a mint, read in one transaction.

    tip         the newest position of the log
    state       the fold state of the mint; None before its first swap
    in_sol      the prices in SOL stored with the state; None: no prices are stored
    rows        the requested folded candles, oldest first; if all begin later than requested, the
                oldest candle of the mint
    has_older   whether older candles are stored
    newer       the number of newer folded candles that are stored
    unpriced    folded spans without a price, oldest first: from the oldest of *rows* on, or from
                the first span if no candle is older, up to the requested time
    waypoints   the accumulators stored for some of *rows*, oldest first
    tail        (effective time, swap) of logged swaps that are not folded yet, in order
    """

    tip: LogTip
    state: bytes | None
    in_sol: bytes | None
    rows: Sequence[SeriesCandle]
    has_older: bool
    newer: int
    waypoints: Sequence[Waypoint]
    tail: Sequence[tuple[UnixS, PricedSwap]]
    unpriced: Sequence[UnpricedVolume] = ()


class KeptSwaps(msgspec.Struct, frozen=True, kw_only=True):
    """The newest stored swaps of a mint up to a requested time, read in one transaction.

    tip         the newest position of the log at that time
    swaps       (effective time, swap) in order
    has_older   whether older swaps are stored
    is_whole    whether *swaps* begins with the first swap since the mint has been tracked
    """

    tip: LogTip
    swaps: list[tuple[UnixS, PricedSwap]]
    has_older: bool
    is_whole: bool


class SwapPlace(msgspec.Struct, frozen=True, order=True, gc=False):
    """The place of a swap on the chain; later swaps have greater places."""

    slot: Slot
    transaction_index: int
    outer: int
    inner: int
    leg: int


class LoggedSwap(msgspec.Struct, frozen=True, gc=False):
    """A swap of one mint that is read from the log, with its details.

    place   where the swap is on the chain
    time    the effective time of its slot
    """

    place: SwapPlace
    time: UnixS
    swap: PricedSwap

    @property
    def signer(self) -> str:
        """The start of the address of the swap's signer; "" if it was not logged."""
        return "" if self.swap.evidence is None else self.swap.evidence.signer

    @property
    def flow(self) -> int:
        """The traded micro-USD, even if the swap does not count as volume; 0: not logged."""
        return 0 if self.swap.evidence is None else self.swap.evidence.flow

    @property
    def amount(self) -> int:
        """The traded amount in raw units of the token; 0 if it was not logged."""
        return 0 if self.swap.detail is None else self.swap.detail.amount


class KeptCrowds(msgspec.Struct, frozen=True):
    """The traders of a mint in each span of five minutes, including swaps that are not folded yet.

    since   the time from which all swaps are included: that of the first swap, or a later one if
            ingest did not store the traders of some earlier swaps; None: there are no swaps
    rows    the traders of each span of the day that ends after *since*, oldest first
    """

    since: UnixS | None
    rows: Sequence[CrowdRow]


class LoggedSwaps(msgspec.Struct, frozen=True, kw_only=True):
    """Swaps of a mint, read in one transaction.

    tip        the newest position of the log
    final      the newest final slot; None before the first
    swaps      the swaps, newest first, except migrations, swaps without details, and swaps that a
               reorg retracted
    has_older  whether older swaps are stored
    is_whole   whether the swaps end with the first one since tracking began
    crowds     the traders in each span of a day; None if they were not requested
    """

    tip: LogTip
    final: Slot | None
    swaps: Sequence[LoggedSwap]
    has_older: bool
    is_whole: bool = False
    crowds: KeptCrowds | None = None


class KeptPools(msgspec.Struct, frozen=True, kw_only=True):
    """The stored pools of a mint as of the newest folded slot, read in one transaction.

    tip            the newest position of the log
    time           the time of the newest folded slot; None before the first
    standing       the `Standing` after that slot, packed; None before the first price
    booked         the pools in the pool book
    rows           the candles of these pools, oldest first, including the open ones
    missed_until   the end of the newest span with swaps that are not in the pool book; None: there
                   is no such span
    has_crowd      whether the newest span with a trader is at most a day old
    """

    tip: LogTip
    time: UnixS | None
    standing: bytes | None
    booked: Sequence[BookedPool]
    rows: Sequence[PoolRow]
    missed_until: UnixS | None = None
    has_crowd: bool = False


class SeriesReader(Protocol):
    """Reads candles, swaps and pools of mints from the store; this is safe while ingest writes.

    Every method raises ServiceUnavailable if the store does not answer.
    """

    async def tip(self) -> LogTip:
        """Return the newest position of the log."""

    async def candles(
        self, mint: Mint, asked: AskedCandles, known: KeptCandles | None = None
    ) -> KeptCandles | None:
        """Return the candles of *mint* for the range in *asked*; None if it is not tracked.

        known   an earlier answer to the same request, whose unchanged parts need not be read again
        """

    async def swaps(
        self, mint: Mint, before: SwapPlace | None, limit: int, *, with_crowds: bool = False
    ) -> LoggedSwaps | None:
        """Return up to *limit* swaps of *mint*, newest first; None if it is not tracked.

        before        return only swaps before this one; None: begin with the newest
        with_crowds   whether to return the traders of a day, too
        """

    async def kept_swaps(self, mint: Mint, until: UnixS, spans: int) -> KeptSwaps | None:
        """Return the newest swaps of *mint* up to the time *until*; None if it is not tracked.

        spans   the most spans of 15 seconds with a swap for which to return the swaps
        """

    async def pools(self, mint: Mint, since_s: int = POOL_CANDLES_S) -> KeptPools | None:
        """Return the pools of *mint* and their candles; None if the mint is not tracked.

        since_s   how many seconds of candles to return, up to the newest folded slot
        """

    async def facts(self, mint: Mint) -> MintFacts | None:
        """Return the newest facts of *mint*, such as its name; None if none were read yet."""

    async def past(
        self, mint: Mint, moment: Moment, timeframes: Collection[str] = ()
    ) -> PastMint | OutOfReach | None:
        """Return *mint* as it was at *moment*; None if it is not tracked.

        Returns OutOfReach if the stored data do not suffice for an exact report of *moment*.

        timeframes   further timeframes to load, such as m30; each is an `AskedFrame`
        """


NEWEST_S: Final = 5 * MINUTE_S
HOUR_SPANS_S: Final = HOUR_S  # twelve spans of five minutes
DAY_SPANS_S: Final = DAY_S
TRADES_USD: Final = (100, 1_000, 10_000)
# Constant products whose quote is in one vault.  For a curve, its virtual reserve counts.
CONSTANT_PRODUCTS: Final = frozenset({"pumpfun", "pumpswap", "raydium_v4", "raydium_cpmm"})
# In other quotes, the logged reserve is limited: see `Quotes.behind`.
EXACT_QUOTES: Final = frozenset({WSOL}) | DOLLARS | STAKING_TOKENS

MILLIONTHS: Final = 1_000_000  # the progress of a bonding curve that is complete
BASIS_POINTS: Final = 10_000
# Programs whose pools all take the same fee, which no pool can change.
FEES: Final = {"raydium_v4": 0.0025}


class PoolFlow(NamedTuple):
    """The trades of a pool in the stored swaps, added up; volumes are in micro-USD.

    bought    the bought part of the volume
    traders   the number of distinct signers
    """

    volume: int = 0
    bought: int = 0
    swaps: int = 0
    traders: int = 0


class SpanFlow(NamedTuple):
    """The trades of a pool in several spans of five minutes, added up.

    volume, bought   the volume in micro-USD, and the bought part of it
    since            the time from which swaps count
    """

    volume: int = 0
    bought: int = 0
    swaps: int = 0
    since: UnixS = UnixS(0)


class PriceMove(NamedTuple):
    """The fractions by which a purchase of *usd* dollars raises a price, and a sale lowers it."""

    usd: int
    buy: float
    sell: float


class PoolNow(NamedTuple):
    """A pool of a mint as of one slot, with its trades; unknown values are None.

    usd, sol, at   the price after its newest swap, and the time of that swap
    venue, quote   the program and the quote mint of its newest stored swap, or those in the pool
                   book
    weight         its part of the weight of all pools that count for the price, 0 to 1
    agrees         whether its price is within AGREEMENT of the price of the mint
    quote_usd      the USD of the quote token in the pool after its newest swap
    token_usd      the USD of the tokens in the pool, at its price; None if *is_estimate*
    newest, kept   the trades of the last NEWEST_S seconds, and those of all stored swaps
    is_estimate    whether *moves* are estimated, or upper limits because *quote_usd* is limited
    hour, day      the trades of the newest 12 and 288 spans of five minutes, including the open
                   one; None if the pool is not in the pool book
    since          the time of its first swap in the pool book; None if it is not in the pool book
    moves          the price moves of trades of TRADES_USD; empty if the depth is not known
    fee            the fee of a swap, 0.0025 is 0.25 %: the newest fee that a swap stated, otherwise
                   the fee of the venue, if all pools of the venue take the same
    progress       how far a bonding curve is on the way to its pool, 0 to 1; None if this is not a
                   curve, or if it is unknown
    came_from      the bonding curve that this pool replaced
    went_to        the pool that replaced this one
    moved_at       the slot of the replacement; None without a replacement
    """

    pool: str
    venue: str | None
    quote: str | None
    usd: float
    sol: float
    at: UnixS
    weight: float
    agrees: bool
    quote_usd: float | None
    token_usd: float | None
    newest: PoolFlow
    kept: PoolFlow
    moves: Sequence[PriceMove]
    is_estimate: bool
    hour: SpanFlow | None = None
    day: SpanFlow | None = None
    since: UnixS | None = None
    fee: float | None = None
    progress: float | None = None
    came_from: str | None = None
    went_to: str | None = None
    moved_at: Slot | None = None


def pools_of(
    standing: Standing, swaps: Sequence[LoggedSwap], now: UnixS, kept: KeptPools | None = None
) -> list[PoolNow]:
    """Return the pools of a mint with their trades, the one with the largest weight first.

    standing   the pools
    swaps      the stored swaps of the mint, newest first
    kept       the pools of the mint in the pool book, with their candles of at least a day; None:
               no pool is in the book
    """
    counting = weights(standing.pools, now)
    total = sum(counting)
    if not total:
        # If no pool weighs anything, exactly one of them counts.
        counting = [float(counts_at(standing, pool.pool, now)) for pool in standing.pools]
        total = sum(counting)
    by_pool: dict[str | None, list[LoggedSwap]] = defaultdict(list)
    for one in swaps:
        by_pool[one.swap.pool].append(one)
    books = {} if kept is None else {one.pool: one for one in kept.booked}
    flows = _Flows(kept, now, HOUR_SPANS_S), _Flows(kept, now, DAY_SPANS_S)
    found = []
    for pool, weight in zip(standing.pools, counting, strict=True):
        book = books.get(pool.pool)
        now_of = _pool_now(standing, pool, by_pool[pool.pool], weight / total, now, book)
        found.append(now_of if book is None else _with_book(now_of, book, *flows))
    return sorted(found, key=lambda one: (-one.weight, -(one.quote_usd or 0.0), one.pool))


def _pool_now(  # noqa: PLR0913, PLR0917 - one for each part
    standing: Standing,
    pool: StandingPool,
    swaps: Sequence[LoggedSwap],
    weight: float,
    now: UnixS,
    book: BookedPool | None,
) -> PoolNow:
    detail = next((one.swap.detail for one in swaps if one.swap.detail is not None), None)
    venue = None if book is None else book.venue
    quote = None if book is None else book.quote
    if detail is not None:
        venue = detail.program
        quote = detail.quote
    is_product = venue in CONSTANT_PRODUCTS
    is_exact = is_product and quote in EXACT_QUOTES
    quote_usd = pool.left / MICRO_USD if pool.left else None
    depth = quote_usd if is_product else _shown_depth(pool)
    ratio = max(pool.usd, standing.usd) / min(pool.usd, standing.usd)
    return PoolNow(
        pool=pool.pool,
        venue=venue,
        quote=quote,
        usd=pool.usd,
        sol=pool.sol,
        at=pool.at,
        weight=weight,
        agrees=ratio <= 1 + AGREEMENT,
        quote_usd=quote_usd,
        token_usd=quote_usd if is_exact else None,
        newest=_flow(newest(swaps, now)),
        kept=_flow(swaps),
        moves=[] if depth is None else [move_of(depth, usd) for usd in TRADES_USD],
        is_estimate=not is_exact,
        fee=FEES.get(venue or ""),
    )


class _Flows:
    """The trades of each pool in a span of time, without those before `missed_until`, added up."""

    def __init__(self, kept: KeptPools | None, now: UnixS, span_s: int) -> None:
        begin = bucket(Timeframe.M5, now) - span_s + WIDTH_S[Timeframe.M5]
        missed_until = 0 if kept is None else kept.missed_until or 0
        self._since = min(max(begin, missed_until), now)
        self._found: dict[int, SpanFlow] = {}
        for row in () if kept is None else kept.rows:
            if row.bucket >= max(begin, missed_until):
                was = self._found.get(row.key, SpanFlow())
                volume = was.volume + row.buy_volume + row.sell_volume
                bought = was.bought + row.buy_volume
                self._found[row.key] = SpanFlow(volume, bought, was.swaps + row.swaps)

    def of(self, book: BookedPool) -> SpanFlow:
        found = self._found.get(key_of(book.pool), SpanFlow())
        return found._replace(since=UnixS(max(self._since, book.since)))


def _with_book(one: PoolNow, book: BookedPool, hours: _Flows, days: _Flows) -> PoolNow:
    return one._replace(
        hour=hours.of(book),
        day=days.of(book),
        since=book.since,
        fee=one.fee if book.fee_bps is None else book.fee_bps / BASIS_POINTS,
        progress=None if book.progress is None else book.progress / MILLIONTHS,
        came_from=book.came_from,
        went_to=book.went_to,
        moved_at=book.moved_at,
    )


def _shown_depth(pool: StandingPool) -> float | None:
    depth = depth_of(pool)
    return depth / MICRO_USD if depth else None


def move_of(quote_usd: float, usd: int) -> PriceMove:
    """Return the price moves of a trade of *usd* in a constant product with *quote_usd* (> 0)."""
    grown = 1 + usd / quote_usd
    return PriceMove(usd, grown**2 - 1, 1 - grown**-2)


def _flow(swaps: Sequence[LoggedSwap]) -> PoolFlow:
    signers = {one.signer for one in signed(swaps)}
    return PoolFlow(
        sum(one.swap.volume for one in swaps),
        sum(one.swap.volume for one in swaps if one.swap.is_buy),
        len(swaps),
        len(signers),
    )


TOP: Final = 10


@dataclass(slots=True)
class TraderNow:
    """The purchases and sales of a mint by one trader, summed over the stored swaps.

    trader                       the start of the trader's address
    first_at, last_at            the times of the first and the last stored swap
    bought, sold                 micro-USD, including trades that do not count as volume
    bought_amount, sold_amount   raw amounts of the token
    buys, sells                  numbers of swaps
    """

    trader: str
    first_at: UnixS
    last_at: UnixS
    bought: int = 0
    sold: int = 0
    bought_amount: int = 0
    sold_amount: int = 0
    buys: int = 0
    sells: int = 0

    @property
    def flow(self) -> int:
        """The micro-USD of all purchases and sales of this trader."""
        return self.bought + self.sold

    @property
    def swaps(self) -> int:
        """The number of purchases and sales of this trader."""
        return self.buys + self.sells

    @property
    def realised_usd(self) -> float | None:
        """The gain on the tokens that the trader bought and sold, at average prices.

        None unless the trader has both bought and sold.
        """
        if not (self.bought_amount and self.sold_amount):
            return None
        gained = self.sold / self.sold_amount - self.bought / self.bought_amount
        return min(self.bought_amount, self.sold_amount) * gained / MICRO_USD


class Crowd(NamedTuple):
    """The number of traders in some swaps, and the share of the volume that the largest have.

    flow                     micro-USD that all traders bought and sold
    top_share, top10_share   the share of the flow that the largest trader has, and that the ten
                             largest traders have together; 0 to 1; None without trades
    """

    buyers: int
    sellers: int
    traders: int
    swaps: int
    flow: int
    top_share: float | None
    top10_share: float | None

    @classmethod
    def of(cls, counts: tuple[int, int, int, int], flow: int, largest: Sequence[int]) -> "Crowd":
        """Return the counts of traders together with the share of the largest ones.

        counts    the number of buyers, sellers, traders and swaps
        flow      the micro-USD of all traders
        largest   the micro-USD of the largest traders, in any order, at most TOP
        """
        top = max(largest, default=0) / flow if flow else None
        top10 = sum(largest) / flow if flow else None
        return cls(*counts, flow, top, top10)


def top_traders(swaps: Iterable[LoggedSwap], limit: int) -> list[TraderNow]:
    """Return up to *limit* traders in *swaps*: those with the largest volume, the largest first."""
    return sorted(_traders(swaps), key=lambda one: (-one.flow, one.trader))[:limit]


def crowd_of(swaps: Iterable[LoggedSwap]) -> Crowd:
    """Return the number of traders in *swaps*, and the largest traders' shares of the volume."""
    traders = _traders(swaps)
    flows = sorted((each.flow for each in traders), reverse=True)
    buyers = sum(each.buys > 0 for each in traders)
    sellers = sum(each.sells > 0 for each in traders)
    swap_count = sum(each.swaps for each in traders)
    return Crowd.of((buyers, sellers, len(traders), swap_count), sum(flows), flows[:TOP])


def newest(swaps: Iterable[LoggedSwap], now: UnixS) -> list[LoggedSwap]:
    """Return those of *swaps* that are at most NEWEST_S seconds older than *now*."""
    return [one for one in swaps if one.time > now - NEWEST_S]


def signed(swaps: Iterable[LoggedSwap]) -> list[LoggedSwap]:
    """Return those of *swaps* whose signer was logged, in the same order."""
    return [one for one in swaps if one.signer]


def _traders(swaps: Iterable[LoggedSwap]) -> Collection[TraderNow]:
    """Return the purchases and sales of each trader in *swaps*, except swaps without a signer."""
    found: dict[str, TraderNow] = {}
    for one in signed(swaps):
        trader = found.setdefault(one.signer, TraderNow(one.signer, one.time, one.time))
        trader.first_at = min(trader.first_at, one.time)
        trader.last_at = max(trader.last_at, one.time)
        if one.swap.is_buy:
            trader.buys += 1
            trader.bought += one.flow
            trader.bought_amount += one.amount
        else:
            trader.sells += 1
            trader.sold += one.flow
            trader.sold_amount += one.amount
    return found.values()

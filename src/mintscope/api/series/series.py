"""Endpoints of candles and past prices."""

import asyncio
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, NamedTuple, cast

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType
from msgspec.structs import replace

from mintscope.accounts.keys.scope import Scope
from mintscope.api.discovery.operation import OF_TOKENS, SPENDERS, Operation, sold_page
from mintscope.api.gate import Caller
from mintscope.api.query import NoQuery, read_query
from mintscope.api.series.swaps import (
    Made,
    ReadRows,
    RowsSold,
    SeriesShop,
    Wanted,
    made_of,
    not_tracked,
)
from mintscope.api.series.wire import (
    CANDLES_MAX,
    TIME_MAX,
    Before,
    Candle,
    CandlePage,
    CandlesQuery,
    IndicatorsQuery,
    ProfileBin,
    SolPrices,
    SupplyUsed,
    VolumeProfile,
)
from mintscope.api.v1 import NOT_TRACKED, V1, mint_of
from mintscope.api.wire import EXPECTED, ErrorBody, Wire, decode_cursor, encode_cursor, read_body
from mintscope.api.x402 import series_resource
from mintscope.kit.errors import (
    BadRequest,
    ErrorCode,
    InsufficientData,
    ServiceUnavailable,
    TokenNotFound,
)
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Response
from mintscope.kit.primitives import AddressText, Mint, UnixS, about
from mintscope.kit.time import SECOND_MS
from mintscope.market.indicators.bars import bars_of
from mintscope.market.indicators.profile import volume_profile
from mintscope.market.log import LogTip
from mintscope.market.report import ReadReport
from mintscope.market.series.pools import (
    AskedCandles,
    KeptCandles,
    KeptSwaps,
    SeriesCandle,
    SeriesReader,
)
from mintscope.market.series.series import (
    BUCKET,
    SHORT,
    WIDTHS,
    PageOfCandles,
    Range,
    Series,
    page_of,
    pool_series,
    series_of,
    short_series,
    widened,
)
from mintscope.market.series.tables import MEDIA_TYPES, TableFormat, table_of, written
from mintscope.market.series.units import PriceUnit, Supply, priced_in, supply_of
from mintscope.market.timeframe import TIMEFRAMES, WIDTH_S, Timeframe
from mintscope.payments.checkout import Delivered
from mintscope.payments.merchant import Order
from mintscope.payments.protocol.envelope import Resource
from mintscope.solana.blocks import USDC, WSOL

PRICES_PATH: Final = "/v1/prices"
PRICES_MAX: Final = 100
PRICES_ORDER: Final = Order(Resource(PRICES_PATH), price=lambda _: 0, is_for_credits=True)


class PriceAsked(Wire, forbid_unknown_fields=True):
    """A token and the time of the requested price."""

    mint: Annotated[AddressText, about("The mint, base58.", WSOL)]
    t: Annotated[
        int, Meta(ge=0, le=TIME_MAX, description="Unix seconds.", examples=[1_763_460_000])
    ]


class PricesRequest(Wire, forbid_unknown_fields=True):
    """Body of POST /v1/prices."""

    prices: Annotated[
        list[PriceAsked],
        Meta(min_length=1, max_length=PRICES_MAX, description="Tokens and times, in any order."),
    ]


class PriceAt(Wire):
    """The price of a token at a past time."""

    usd: Annotated[float, about("US dollars for one whole token.", 171.25)]
    sol: Annotated[float | None, about("SOL for one whole token; null: not kept.", 1.0)]
    closed_at: Annotated[
        int,
        about(
            "End of the candle that closed at this price, Unix seconds; at most t.", 1_763_460_000
        ),
    ]
    tf: Annotated[str, about("The candles that are kept of that time: m1, m5, m15 or h1.", "m1")]


class PriceLine(Wire):
    """The price of one token at one time, or the error that explains its absence."""

    token: Annotated[str, about("The mint, base58.", WSOL, USDC)]
    t: Annotated[int, about("The time that was asked for, Unix seconds.", 1_763_460_000)]
    price: Annotated[PriceAt | UnsetType, about("Its price, if it is known.")] = UNSET
    error: Annotated[
        ErrorBody | UnsetType, about("Why there is no price.", NOT_TRACKED, instead_of="price")
    ] = UNSET


class PricePage(Wire):
    """A line for each token and time, in the order of the request."""

    found: Annotated[int, about("The number of prices.", 1)]
    prices: Annotated[list[PriceLine], about("A line for each.")]


class _Close(NamedTuple):
    candle: SeriesCandle
    timeframe: Timeframe


@dataclass(frozen=True, slots=True)
class PriceRoutes:
    """The route of past prices; *v1* identifies and charges callers."""

    v1: V1
    reader: SeriesReader

    @Operation(
        "POST",
        PRICES_PATH,
        PricePage,
        unit="for up to 100 prices",
        refusals=OF_TOKENS,
        proofs=SPENDERS,
        is_charged=True,
        takes_key=True,
        body=PricesRequest,
        scope=Scope.TRADE_READ,
    )
    async def get_past_prices(self, request: Request) -> Response:
        """Prices of tokens at times of the past: up to 100 for a credit.

        Returns the price of each token at each time, up to 100: the close of the newest candle that
        had closed by then, in the narrowest timeframe stored for that time, or why there is
        none. Costs one credit, and nothing if there is no price at all. Paid with credits alone.
        """
        caller = await self.v1.gate.admit_buyer(request)
        read_query(request, NoQuery)
        asked = await read_body(request, PricesRequest)
        pairs = [(mint_of(each.mint), UnixS(each.t)) for each in asked.prices]
        found = await self.v1.resource_server.sell_report(
            request, caller, PRICES_ORDER, partial(self._read_prices, request, caller, pairs)
        )
        return self.v1.freshness.response(request, found, self.v1.clock)

    async def _read_prices(
        self, request: Request, caller: Caller, pairs: Sequence[tuple[Mint, UnixS]]
    ) -> Delivered:
        """Return the price of each mint at its time, for each of *pairs*, and the cost in credits.

        The cost is one credit if any price is known, else nothing.  If the client has no credit, an
        error is raised before any price is read.
        """
        await self.v1.resource_server.expect_credits(request, caller, PRICES_ORDER, 1)
        tip = await self.reader.tip()
        if tip.slot is None or tip.time is None:
            raise ServiceUnavailable("No block has been read yet; try again shortly.")
        lines = [await self._line(mint, at, min(at, tip.time)) for mint, at in pairs]
        count = sum(line.price is not UNSET for line in lines)
        age_ms = 0 if tip.follows_files else max(0, self.v1.clock.now() - tip.time * 1000)
        page = PricePage(count, lines)
        report = ReadReport(msgspec.json.encode(page), tip.slot, age_ms)
        self.v1.freshness.expect(report)
        request.expect_client()
        return Delivered(report, 1 if count else 0)

    async def _line(self, mint: Mint, asked: UnixS, at: UnixS) -> PriceLine:
        try:
            close = await close_by(self.reader, mint, at)
        except TokenNotFound as failure:
            return PriceLine(mint, asked, error=ErrorBody(failure.code, str(failure)))
        if close is None:
            said = f"No candle of {mint} is kept that had closed by {asked}."
            return PriceLine(mint, asked, error=ErrorBody(ErrorCode.INSUFFICIENT_DATA, said))
        candle, timeframe = close
        ended = candle.bucket + WIDTH_S[timeframe]
        price = PriceAt(candle.close, candle.close_sol, ended, timeframe)
        return PriceLine(mint, asked, price)


async def close_by(reader: SeriesReader, mint: Mint, at: UnixS) -> _Close | None:
    """Return the newest candle of *mint* that had closed at *at*, in the narrowest timeframe.

    A wider timeframe is used only if no narrower one has such a candle.  Returns None if no
    timeframe has such a candle.  Raises TokenNotFound.
    """
    for timeframe in TIMEFRAMES:
        # The latest start of a candle that had closed at *at*.
        asked = AskedCandles(timeframe, UnixS(max(0, at - WIDTH_S[timeframe])), 1)
        kept = await reader.candles(mint, asked)
        if kept is None:
            raise not_tracked(mint)
        candles = series_of(kept, asked).candles
        # If all candles begin later, `series_of` returns the first one.
        if candles and candles[-1].bucket <= asked.until:
            return _Close(candles[-1], timeframe)
    return None


RUNS_MAX: Final = 40  # runs of up to CANDLES_MAX candles, 250 bytes per candle
TABLE_ROWS_MAX: Final = 44_640  # the minutes of 31 days
MICRO: Final = 1e6
_encode: Final = msgspec.json.Encoder().encode


class _Run(NamedTuple):
    """Cached consecutive candles, oldest first, and the JSON of each."""

    candles: list[SeriesCandle]
    encoded: list[bytes]


NO_RUN: Final = _Run([], [])


class EncodedCandles:
    """Encodes pages of candles, and caches the JSON of the newest closed candles of each series.

    Up to RUNS_MAX series are cached, the most recently requested.
    """

    def __init__(self) -> None:
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    def page(self, series: str, candles: Sequence[SeriesCandle], ended: UnixS) -> bytes:
        """Return *candles*, oldest first, as a list in JSON; all but open ones come from a cache.

        series   the name under which the candles are cached
        ended    candles that begin after this time are open
        """
        ended_count = bisect_right(candles, ended, key=BUCKET)
        encoded = self._ended(series, list(candles[:ended_count]))
        return b"[%b]" % b",".join(encoded + _encoded(candles[ended_count:], is_open=True))

    def _ended(self, series: str, candles: list[SeriesCandle]) -> list[bytes]:
        run = self._runs.pop(series, NO_RUN)
        begin = bisect_left(run.candles, candles[0].bucket, key=BUCKET) if candles else 0
        known = run.candles[begin : begin + len(candles)]
        # A reorg or a backfill can change candles that have ended, so cached ones are compared.
        if not known or known != candles[: len(known)]:
            begin = 0
            known = []
        new = candles[len(known) :]
        encoded = run.encoded[begin : begin + len(known)] + _encoded(new, is_open=False)
        # A page of older candles must not displace the newest ones.
        if new and (not run.candles or new[-1].bucket >= run.candles[-1].bucket):
            run = _Run(
                (run.candles[:begin] + candles)[-CANDLES_MAX:],
                (run.encoded[:begin] + encoded)[-CANDLES_MAX:],
            )
        self._runs[series] = run
        if len(self._runs) > RUNS_MAX:
            self._runs.popitem(last=False)
        return encoded


def _encoded(candles: Sequence[SeriesCandle], *, is_open: bool) -> list[bytes]:
    return [_encode(wire_candle(candle, is_open=is_open)) for candle in candles]


def wire_candle(candle: SeriesCandle, *, is_open: bool) -> Candle:
    """Return *candle* as a line of the response."""
    c = candle
    sol = None
    if (
        c.open_sol is not None
        and c.high_sol is not None
        and c.low_sol is not None
        and c.close_sol is not None
    ):
        sol = SolPrices(c.open_sol, c.high_sol, c.low_sol, c.close_sol)
    total = c.buy_volume + c.sell_volume
    if c.imported_volume is not None:
        total += c.imported_volume
        prices = (c.open, c.high, c.low, c.close, sol)
        return Candle(c.bucket, *prices, total / MICRO, None, None, None, True, is_open)  # noqa: FBT003
    # A page has a thousand candles: to pass the fields one by one is fastest.
    return Candle(
        c.bucket,
        c.open,
        c.high,
        c.low,
        c.close,
        sol,
        total / MICRO,
        c.buy_volume / MICRO,
        c.sell_volume / MICRO,
        c.count,
        False,  # noqa: FBT003
        is_open,
    )


class _Read(NamedTuple):
    """The result of a read: candles, the newest slot of the log, and the supply for market caps."""

    tip: LogTip
    series: Series
    supply: Supply | None
    now: UnixS


@dataclass(frozen=True, slots=True)
class CandleRoutes:
    """The handler of GET /v1/token/{tokenAddress}/candles.

    encoded   encodes pages, and caches the JSON of their candles
    """

    shop: SeriesShop
    encoded: EncodedCandles

    @sold_page(
        "/v1/token/{tokenAddress}/candles",
        CandlePage,
        query=CandlesQuery,
        other_types=tuple(MEDIA_TYPES.values()),
    )
    async def get_candles(self, request: Request) -> Response:
        """Candles of a token, up to 1,000 for a credit; a page without candles is free.

        Returns candles of a Solana token from its swaps, oldest first, up to 1,000 a page: open,
        high, low and close in USD and SOL, buy and sell volume in USD, number of swaps. Costs one
        credit or one payment a page, and nothing for a page without candles; errors cost nothing.
        Minutes without a swap have no candle unless fill=previous. Times are Unix seconds;
        nextCursor leads to the next page. format requests a table of up to a month of minutes.
        """
        caller = await self.shop.gate.admit_buyer(request)
        mint = mint_of(request.path_params["tokenAddress"])
        query = read_query(request, CandlesQuery)
        within = range_of(query)
        if query.format != "json":
            return await self._sell_table(request, caller, mint, query)

        async def make() -> Made:
            tip, series, supply, now = await self._read(mint, within, query)
            page = page_of(series, within, now)
            # For a pool, *now* is the time of the newest folded slot, and decides what is open.
            as_of = replace(tip, time=now)
            wire = wire_page(mint, within, page, as_of, self.encoded, unit=query.in_, of=query.pool)
            if supply is not None:
                wire.supply = used(supply)
            if query.profile:
                wire.volume_profile = profile_of(page.candles, query.profile)
            return made_of(tip, wire, is_empty=not page.candles)

        wanted = Wanted(mint, "candles", query)
        look = look_of(self.shop, mint, within, query.in_)
        return await self.shop.sell(request, caller, wanted, make, look)

    async def _read(self, mint: Mint, within: Range, query: CandlesQuery) -> _Read:
        """Return the candles for the page *within*, with prices in the unit of *query*."""
        unit: PriceUnit = query.in_
        supply = await read_supply(self.shop.reader, mint, unit)
        if query.pool:
            kept_pools = await self.shop.reader.pools(mint)
            if kept_pools is None:
                raise not_tracked(mint)
            series = priced_in(pool_series(kept_pools, query.pool, within.width), unit, supply)
            return _Read(kept_pools.tip, series, supply, kept_pools.time or UnixS(0))
        if within.width is SHORT:
            swaps = await self._swaps(mint, within)
            # Up to 100,000 swaps may take a tenth of a second, so use a thread.
            made = await asyncio.to_thread(lambda: priced_in(short_series(swaps), unit, supply))
            if not made.candles:
                await self.shop.read_priced(mint)  # raises if the token has no price at all
            return _Read(swaps.tip, made, supply, swaps.tip.time or UnixS(0))
        kept = await self.shop.read_priced(mint, within.asked)
        series = await read_series(kept, within.asked, within, unit, supply)
        return _Read(kept.tip, series, supply, kept.tip.time or UnixS(0))

    async def _swaps(self, mint: Mint, within: Range) -> KeptSwaps:
        until = UnixS(within.until - within.until % SHORT.seconds + SHORT.seconds - 1)
        kept = await self.shop.reader.kept_swaps(mint, until, within.limit + 2)
        if kept is None:
            raise not_tracked(mint)
        return kept

    async def _sell_table(
        self, request: Request, caller: Caller, mint: Mint, query: CandlesQuery
    ) -> Response:
        """Sell the requested candles as a table, for one credit per ROWS_A_CREDIT rows, rounded up.

        The table has at most TABLE_ROWS_MAX rows.
        """
        within = replace(range_of(query), limit=TABLE_ROWS_MAX)
        form = TableFormat(query.format)

        async def read() -> ReadRows:
            tip, series, _, now = await self._read(mint, within, query)
            candles = (await asyncio.to_thread(page_of, series, within, now)).candles
            ended = UnixS(now - within.width.seconds)
            return ReadRows(tip, len(candles), partial(_table, candles, ended, form))

        resource = series_resource(mint, "candles", query)
        name = f"{mint}-{query.tf}.{form}"
        sold = RowsSold(resource, MEDIA_TYPES[form], name, is_costly=within.width is SHORT)
        return await self.shop.sell_rows(request, caller, sold, read)


def profile_of(candles: Sequence[SeriesCandle], bin_count: int) -> VolumeProfile | None:
    """Return the volume of *candles* in *bin_count* ranges of the price; None without volume."""
    bars = bars_of(candles, is_whole=False)
    found = volume_profile(bars.highs, bars.lows, bars.volumes, bin_count)
    if found is None:
        return None
    edges = found.edges
    return VolumeProfile(
        [ProfileBin(*each) for each in zip(edges, edges[1:], found.volumes, strict=False)],
        (edges[found.control] + edges[found.control + 1]) / 2,
        edges[found.first],
        edges[found.last + 1],
    )


def _table(candles: Sequence[SeriesCandle], ended: UnixS, form: TableFormat) -> bytes:
    """Return *candles* as a file of the format *form*, such as CSV.

    ended   candles that begin after this time are marked as open
    """
    return written(table_of(candles, ended), form)


async def read_series(
    kept: KeptCandles, asked: AskedCandles, within: Range, unit: PriceUnit, supply: Supply | None
) -> Series:
    """Return the candles of *kept* as a request for *within* wants them, with prices in *unit*.

    Candles that are not stored in this form are computed in a thread, because each one takes some
    microseconds, and there may be 44,640.
    """

    def make() -> Series:
        return priced_in(widened(series_of(kept, asked), within.width), unit, supply)

    is_as_stored = unit == "usd" and within.kept_in_each == 1
    return make() if is_as_stored else await asyncio.to_thread(make)


async def read_supply(reader: SeriesReader, mint: Mint, unit: PriceUnit) -> Supply | None:
    """Return the supply of *mint*, if *unit* is the market cap; None for other units.

    Raises InsufficientData if the supply is unknown, or cannot be read from the chain.
    """
    if unit != "marketcap":
        return None
    supply = supply_of(await reader.facts(mint))
    if supply is None:
        raise InsufficientData(
            "The supply of this token is not known, or the chain does not count it."
        )
    return supply


def look_of(
    shop: SeriesShop, mint: Mint, within: Range, unit: PriceUnit
) -> Callable[[], Awaitable[Made]] | None:
    """Return a check to run before candles are read: it raises an error if there can be no page.

    The reason is that *mint* has no price, or no known supply for market caps.  Only pages of the
    timeframe SHORT, which may read 100,000 swaps, are so costly that they need this check; for
    others, the result is None.
    """

    async def look() -> Made:
        await read_supply(shop.reader, mint, unit)
        return Made((await shop.read_priced(mint)).tip, b"", is_empty=False)

    return look if within.width is SHORT else None


def used(supply: Supply) -> SupplyUsed:
    """Return *supply* as a part of the response."""
    return SupplyUsed(tokens=supply.text, read_at=supply.read_at_ms // SECOND_MS)


def range_of(query: CandlesQuery | IndicatorsQuery) -> Range:
    """Return the range of candles that *query* requests.  Raises BadRequest."""
    until = read_until(query.cursor, query.tf, query.to)
    # Candles of pools are stored in spans of five minutes, without prices in SOL.
    if isinstance(query, CandlesQuery) and query.pool:
        if query.tf in {"s15", "m1"}:
            raise BadRequest(f"tf: expected m5 or wider with pool; was {query.tf}")
        if query.in_ == "sol":
            raise BadRequest("in: expected usd or marketcap with pool; was sol")
    if query.from_ > query.to:
        raise BadRequest(f"from: expected at most {query.to}, which is `to`; was {query.from_}")
    return Range(
        width=SHORT if query.tf == SHORT.name else WIDTHS[query.tf],
        since=UnixS(query.from_),
        until=until,
        limit=query.limit,
        is_filled=query.fill == "previous",
        is_closed=query.candles == "closed",
    )


def read_until(cursor: str, tf: str, to: int) -> UnixS:
    """Return the latest time at which a candle of the page may begin: that of *cursor*, or *to*.

    Raises BadRequest for an invalid cursor, or one of another request.
    """
    if not cursor:
        return UnixS(to)
    before = decode_cursor(cursor, Before)
    if before.tf != tf or not 0 <= before.until <= to:
        raise BadRequest(EXPECTED)
    return UnixS(before.until)


def wire_page(  # noqa: PLR0913 - one argument for each part
    mint: Mint,
    within: Range,
    page: PageOfCandles,
    tip: LogTip,
    encoded: EncodedCandles,
    *,
    unit: PriceUnit = "usd",
    of: str = "",
) -> CandlePage:
    """Return the response for a page of candles of *mint*, read when the log ended at *tip*.

    unit   the unit of the prices
    of     the pool of the candles; "" for all pools together
    """
    next_cursor = None
    if page.until is not None:
        next_cursor = encode_cursor(Before(within.width.name, page.until))
    series = f"{mint} {within.width.name} {within.is_filled} {unit} {of}"
    ended = UnixS((tip.time or 0) - within.width.seconds)
    # The candles are JSON already: msgspec inserts `Raw` unchanged.
    candles = cast("list[Candle]", Raw(encoded.page(series, page.candles, ended)))
    in_ = UNSET if unit == "usd" else unit
    return CandlePage(mint, within.width.name, candles, next_cursor, of or UNSET, in_)

"""Endpoint of swaps, and the parts that all series share: caches, and the sale of pages."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import astuple

from mintscope.api.discovery.operation import sold_page
from mintscope.api.gate import Caller, Gate
from mintscope.api.query import read_query
from mintscope.api.series.wire import (
    Amount,
    BeforeSwap,
    PriceOfSwap,
    SwapLine,
    SwapPage,
    SwapsQuery,
)
from mintscope.api.v1 import Freshness, mint_of, token_status
from mintscope.api.wire import Wire, decode_cursor, encode_cursor
from mintscope.api.x402 import ResourceServer, is_bare, series_resource
from mintscope.kit.clock import Clock
from mintscope.kit.errors import (
    BadRequest,
    InsufficientData,
    ServiceError,
    ServiceUnavailable,
    TokenNotFound,
)
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Header, Response
from mintscope.kit.primitives import MICRO_USD, MINT_LENGTH_MIN, Mint, Slot, UnixS
from mintscope.market.log import Evidence, LogTip, PricedSwap, Uncounted
from mintscope.market.report import ReadReport
from mintscope.market.series.pools import (
    AskedCandles,
    KeptCandles,
    LoggedSwap,
    LoggedSwaps,
    SeriesReader,
    SwapPlace,
)
from mintscope.market.series.series import has_price, narrowed
from mintscope.market.series.tables import NoTableLibrary
from mintscope.market.timeframe import Timeframe
from mintscope.payments.checkout import Delivered
from mintscope.payments.merchant import Order, report_order
from mintscope.payments.protocol.envelope import Resource

ROW_BYTES: Final = 400  # rough size of a candle, a swap, a span or a waypoint
ROWS_MAX: Final = 40_000  # the size of all windows together, in rows
WINDOW_ROWS: Final = 4  # rough size of a window without its rows and states, in rows
ROWS_OF_MINT_MAX: Final = 4_000
AT_LAST: Final = UnixS(1 << 34)  # later than any candle
NEWEST_MINUTE: Final = AskedCandles(Timeframe.M1, AT_LAST, 1)


class _Window(NamedTuple):
    asked: AskedCandles
    kept: KeptCandles
    size: int  # in rows


class NewestCandles:
    """Reads candles from the store, and caches the newest ones of each mint and timeframe.

    The cache contains up to ROWS_MAX candles; those that were requested longest ago are dropped
    first.  If only a few cached candles have changed, only these are read again.
    """

    def __init__(self, reader: SeriesReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._windows: OrderedDict[tuple[Mint, Timeframe], _Window] = OrderedDict()
        self._rows = 0

    async def read(self, mint: Mint, asked: AskedCandles) -> KeptCandles | None:
        """Return the requested candles of *mint*; None if the mint is not tracked."""
        place = (mint, asked.timeframe)
        window = self._windows.get(place)
        is_newest = asked.until * 1000 >= self._clock.now()
        if window is not None and narrowed(window.kept, asked) is not None:
            # Of the known window, the reader reads only the parts that have changed.
            kept = await self._reader.candles(mint, window.asked, window.kept)
            self._keep(place, window.asked, kept)
        elif is_newest and asked.rows_max <= ROWS_OF_MINT_MAX:
            # A window without an end includes the candles that are still to come.
            wider = asked._replace(until=AT_LAST)
            kept = await self._reader.candles(mint, wider)
            self._keep(place, wider, kept)
        else:
            return await self._reader.candles(mint, asked)
        found = None if kept is None else narrowed(kept, asked)
        # Newer candles may have moved the requested candles out of the window.
        return found if kept is None or found else await self._reader.candles(mint, asked)

    def _keep(
        self, place: tuple[Mint, Timeframe], asked: AskedCandles, kept: KeptCandles | None
    ) -> None:
        before = self._windows.pop(place, None)
        if before is not None:
            self._rows -= before.size
        if kept is not None:
            window = _Window(asked, kept, _size(kept))
            self._windows[place] = window
            self._rows += window.size
        while self._rows > ROWS_MAX:
            _, oldest = self._windows.popitem(last=False)
            self._rows -= oldest.size


def _size(kept: KeptCandles) -> int:
    lists = (kept.rows, kept.tail, kept.unpriced, kept.waypoints)
    states = len(kept.state or b"") + len(kept.in_sol or b"")
    return WINDOW_ROWS + sum(map(len, lists)) + states // ROW_BYTES


KEPT_S: Final = 1.0
BYTES_MAX: Final = 16 * 1024 * 1024
PAGE_BYTES: Final = 1_024  # rough size of a page without its body


class Made(NamedTuple):
    """A page as JSON, and the newest slot of the log that it includes; an empty page is free."""

    tip: LogTip
    body: bytes
    is_empty: bool


class _Kept(NamedTuple):
    made: Made
    until_s: float


class RecentPages:
    """Serves pages from memory while the log has not changed, for KEPT_S at most.

    The log changes with every slot, and when one becomes final, but not when candles are imported:
    imported candles appear within KEPT_S.  At most BYTES_MAX are cached; the oldest pages are
    dropped.
    """

    def __init__(self, reader: SeriesReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._pages: OrderedDict[Resource, _Kept] = OrderedDict()
        self._bytes = 0

    async def page(self, resource: Resource, make: Callable[[], Awaitable[Made]]) -> Made:
        """Return the page sold as *resource*: the cached page, or the result of *make*."""
        kept = self._pages.get(resource)
        is_recent = kept is not None and self._clock.monotonic_s() < kept.until_s
        if kept is not None and is_recent and await self._reader.tip() == kept.made.tip:
            return kept.made
        made = await make()
        self._keep(resource, made)
        return made

    def _keep(self, resource: Resource, made: Made) -> None:
        self._forget(resource)
        self._pages[resource] = _Kept(made, self._clock.monotonic_s() + KEPT_S)
        self._bytes += PAGE_BYTES + len(made.body)
        while self._bytes > BYTES_MAX:
            self._forget(next(iter(self._pages)))

    def _forget(self, resource: Resource) -> None:
        before = self._pages.pop(resource, None)
        if before is not None:
            self._bytes -= PAGE_BYTES + len(before.made.body)


def made_of(tip: LogTip, page: Wire, *, is_empty: bool) -> Made:
    """Return *page*, encoded as JSON, with the log's newest slot *tip* at which it was read."""
    return Made(tip, msgspec.json.encode(page), is_empty)


class Wanted(NamedTuple):
    """A request for one page of data of *mint*.

    kind    the kind of data, such as `candles`
    query   the parsed query
    """

    mint: Mint
    kind: str
    query: Wire


ROWS_A_CREDIT: Final = 1_000


class ReadRows(NamedTuple):
    """Rows that were read for a response body, as of the position *tip* of the log.

    row_count   the number of rows
    write       returns the body; takes long, so call it in a thread
    """

    tip: LogTip
    row_count: int
    write: Callable[[], bytes]


class RowsSold(NamedTuple):
    """The rows, such as candles, that are sold in one response.

    name        the name of the file for download; "" if the body is no file
    is_costly   whether reading is so costly that the rows are read only for a client with a credit
    """

    resource: Resource
    media_type: str
    name: str = ""
    is_costly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesShop:
    """Sells data about a token: pages at one credit or payment, and bodies by their rows or work.

    newest   caches the newest candles of mints
    recent   caches pages while the log is unchanged
    """

    reader: SeriesReader
    newest: NewestCandles
    gate: Gate
    clock: Clock
    freshness: Freshness
    resource_server: ResourceServer
    recent: RecentPages

    async def read_priced(self, mint: Mint, asked: AskedCandles = NEWEST_MINUTE) -> KeptCandles:
        """Return the candles *asked* of a mint that has a price.

        Raises TokenNotFound, and InsufficientData if no swap has set a price yet.
        """
        kept = await self.newest.read(mint, asked)
        if kept is None:
            raise not_tracked(mint)
        if not has_price(kept):
            raise InsufficientData("No swap has set a price of this token yet.")
        return kept

    async def sell(
        self,
        request: Request,
        caller: Caller,
        wanted: Wanted,
        make: Callable[[], Awaitable[Made]],
        look: Callable[[], Awaitable[Made]] | None = None,
    ) -> Response:
        """Sell the page that *make* returns, for one credit of *caller* or one payment.

        The page may come from a cache.  An empty page is free.

        look   None if *make* is cheap.  Otherwise, a cheap function that is called first: it raises
               an error if there can be no page, and returns whether the page is empty.  Unless it
               is, *make* is called only for a client that can pay; a payment is simulated before.
        """
        order = report_order(series_resource(wanted.mint, wanted.kind, wanted.query))
        order = replace(order, is_tried_first=look is not None)

        async def work() -> Delivered:
            try:
                if look is not None:
                    seen = await look()
                    known = self._report(seen)
                    # A stranger gets a 402 without the page, and so causes no costly work.
                    if is_bare(request, caller):
                        return Delivered(known, 1)
                    self.freshness.expect(known)  # check this before a scarce budget is used
                    if not request.has_payment() and not seen.is_empty:
                        await self.resource_server.expect_credits(request, caller, order, 1)
                made = await self.recent.page(order.resource, make)
                report = self._report(made)
                self.freshness.expect(report)
            except ServiceError as failure:
                request.response_headers.append(token_status(failure))
                raise
            # After costly work, a payment is taken even if its client has left: otherwise clients
            # could cause such work for free, with the same payment each time.
            if look is None or not request.has_payment():
                request.expect_client()
            return Delivered(report, 0 if made.is_empty else 1)

        report = await self.resource_server.sell_report(request, caller, order, work)
        return self.freshness.response(request, report, self.clock)

    async def sell_rows(
        self,
        request: Request,
        caller: Caller,
        sold: RowsSold,
        read: Callable[[], Awaitable[ReadRows]],
    ) -> Response:
        """Sell the rows that *read* returns, for one credit per ROWS_A_CREDIT, rounded up.

        The body is written only for a client that can pay for it.
        """
        order = Order(sold.resource, price=lambda _: 0, is_for_credits=True)

        async def work() -> Delivered:
            try:
                if sold.is_costly:
                    await self.resource_server.expect_credits(request, caller, order, 1)
                rows = await read()
                credit_count = -(-rows.row_count // ROWS_A_CREDIT)
                read_report = self._report(Made(rows.tip, b"", is_empty=not rows.row_count))
                self.freshness.expect(read_report)
                if credit_count:
                    await self.resource_server.expect_credits(request, caller, order, credit_count)
                body = await asyncio.to_thread(rows.write)
                report = msgspec.structs.replace(read_report, body=body)
            except NoTableLibrary as flaw:
                raise BadRequest(f"format: {flaw}") from flaw
            except ServiceError as failure:
                request.response_headers.append(token_status(failure))
                raise
            request.expect_client()
            return Delivered(report, credit_count)

        report = await self.resource_server.sell_report(request, caller, order, work)
        request.response_headers += self.freshness.headers(slot=report.slot, age_ms=report.age_ms)
        headers: tuple[Header, ...] = ((b"content-type", sold.media_type.encode()),)
        if sold.name:
            named = f'attachment; filename="{sold.name}"'.encode()
            headers = (*headers, (b"content-disposition", named))
        return Response(200, report.body, headers=headers)

    async def sell_counted(
        self,
        request: Request,
        caller: Caller,
        order: Order,
        make: Callable[[], Awaitable[tuple[Made, int]]],
    ) -> Response:
        """Sell the page that *make* returns; *make* also returns its price in credits."""

        async def work() -> Delivered:
            made, credit_count = await make()
            report = self._report(made)
            self.freshness.expect(report)
            request.expect_client()
            return Delivered(report, credit_count)

        report = await self.resource_server.sell_report(request, caller, order, work)
        return self.freshness.response(request, report, self.clock)

    def _report(self, made: Made) -> ReadReport:
        slot = made.tip.slot
        time = made.tip.time
        if slot is None or time is None:
            raise ServiceUnavailable("The market data are still being loaded; try again shortly.")
        age_ms = 0 if made.tip.follows_files else max(0, self.clock.now() - time * 1000)
        return ReadReport(made.body, slot, age_ms)


def not_tracked(mint: Mint) -> TokenNotFound:
    """Return the error for a mint that is not tracked."""
    return TokenNotFound(f"This service does not track {mint}.")


UNKNOWN: Final = "unknown"
Excluded: TypeAlias = Literal["otherPool", "roundTrip", "noPrice", "quote"]


@dataclass(frozen=True, slots=True)
class SwapRoutes:
    """The handler of GET /v1/token/{tokenAddress}/swaps."""

    shop: SeriesShop

    @sold_page("/v1/token/{tokenAddress}/swaps", SwapPage, query=SwapsQuery)
    async def get_swaps(self, request: Request) -> Response:
        """The newest swaps of a token, up to 500 for a credit; a page without swaps is free.

        Returns the swaps of a Solana token, newest first, up to 500 a page: slot, time, signature,
        program, pool, side, amounts and price. Costs one credit or one payment a page, and nothing
        for a page without swaps; errors cost nothing. nextCursor leads to older swaps that are
        still stored.
        """
        caller = await self.shop.gate.admit_buyer(request)
        mint = mint_of(request.path_params["tokenAddress"])
        query = read_query(request, SwapsQuery)
        before = _place(query.cursor)

        async def make() -> Made:
            logged = await self.shop.reader.swaps(mint, before, query.limit)
            if logged is None:
                raise not_tracked(mint)
            page = wire_swaps(mint, logged)
            return made_of(logged.tip, page, is_empty=not logged.swaps)

        return await self.shop.sell(request, caller, Wanted(mint, "swaps", query), make)


def wire_swaps(mint: Mint, logged: LoggedSwaps) -> SwapPage:
    """Return the response with a page of swaps of *mint*, and a cursor if older ones are stored."""
    final = Slot(-1) if logged.final is None else logged.final
    lines = [line for one in logged.swaps if (line := _line(one, is_final=one.place.slot <= final))]
    cursor = None
    if logged.has_older:
        cursor = encode_cursor(BeforeSwap(*astuple(logged.swaps[-1].place)))
    return SwapPage(mint, lines, cursor)


def decimal(raw: int, decimals: int | None) -> str | None:
    """Return *raw* atoms in whole tokens, exactly: "1.5"; None if *decimals* is None."""
    if decimals is None:
        return None
    digits = str(raw)
    if not decimals:
        return digits
    if len(digits) <= decimals:
        digits = digits.zfill(decimals + 1)
    fraction = digits[-decimals:].rstrip("0")
    return f"{digits[:-decimals]}.{fraction}" if fraction else digits[:-decimals]


def _place(cursor: str) -> SwapPlace | None:
    if not cursor:
        return None
    at = decode_cursor(cursor, BeforeSwap)
    return SwapPlace(Slot(at.slot), at.transaction_index, at.outer, at.inner, at.leg)


def _line(one: LoggedSwap, *, is_final: bool) -> SwapLine | None:
    swap = one.swap
    detail = swap.detail
    if detail is None:
        return None
    price_usd = swap.price_usd
    price = swap.offered  # the swap's own price, if it differs from the price that is set
    if price is None and price_usd is not None and swap.price_sol is not None:
        price = price_usd, swap.price_sol
    excluded = NOTHING_EXCLUDED if swap.volume else _excluded(swap)
    # A page has hundreds of swaps: to pass the fields one by one is fastest.
    return SwapLine(
        one.place.slot,
        one.time,
        detail.signature,
        detail.program,
        swap.pool,
        "buy" if swap.is_buy else "sell",
        Amount(str(detail.amount), decimal(detail.amount, detail.decimals)),
        detail.quote,
        Amount(str(detail.quote_amount), decimal(detail.quote_amount, detail.quote_decimals)),
        None if price is None else PriceOfSwap(*price),
        price_usd is not None,
        is_final,
        "transfers" if _is_unlisted(detail.program) else "table",
        _reason(swap) if price_usd is None else None,
        *excluded,
    )


def _reason(swap: PricedSwap) -> Literal["otherPool", "roundTrip", "noPrice"]:
    """Return the reason why *swap* sets no price."""
    if swap.offered is None:
        return "noPrice"
    is_trip = swap.evidence is not None and swap.evidence.trip
    return "roundTrip" if is_trip else "otherPool"


NOTHING_EXCLUDED: Final = (None, None)


def _excluded(swap: PricedSwap) -> tuple[float | None, Excluded | None]:
    """Return the USD of *swap* that count in no volume, and the reason; None if it had no USD.

    *swap* must be one without a volume.
    """
    evidence = swap.evidence
    if evidence is None or not evidence.flow:
        return NOTHING_EXCLUDED
    return evidence.flow / MICRO_USD, _excluded_reason(swap, evidence)


def _excluded_reason(swap: PricedSwap, evidence: Evidence) -> Excluded:
    match evidence.uncounted:
        case Uncounted.ROUND_TRIP:
            return "roundTrip"
        case Uncounted.QUOTE:
            return "quote"
        case None:  # from an older log: direct swaps count unless their signer bought and sold
            return "roundTrip" if evidence.is_direct or evidence.trip else "quote"
        case _ if swap.offered is None:
            return "noPrice"
        case _:
            return "roundTrip" if evidence.trip else "otherPool"


def _is_unlisted(program: str) -> bool:
    """Return whether *program* has no name here: it is an address, or "unknown" in older logs."""
    return len(program) > MINT_LENGTH_MIN or program == UNKNOWN

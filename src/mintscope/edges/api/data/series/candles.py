"""GET /v1/token/{tokenAddress}/candles: the newest page first, and in it the oldest candle."""

from dataclasses import dataclass
from typing import cast

from msgspec import Raw

from mintscope.base.errors import BadRequest, InsufficientData
from mintscope.base.primitives import Mint, UnixS
from mintscope.core.accounts.keys.scope import Scope
from mintscope.core.market.log import LogTip
from mintscope.core.market.series.candles import (
    WIDTHS,
    PageOfCandles,
    Range,
    has_price,
    page_of,
    series_of,
    widened,
)
from mintscope.edges.api.data.cursor import EXPECTED, decode_cursor, encode_cursor
from mintscope.edges.api.data.query import read_query
from mintscope.edges.api.data.series.encoded import EncodedCandles
from mintscope.edges.api.data.series.recent import Made
from mintscope.edges.api.data.series.selling import SeriesShop, Wanted, made_of, not_tracked
from mintscope.edges.api.data.series.wire import (
    Before,
    Candle,
    CandlePage,
    CandlesQuery,
)
from mintscope.edges.api.description.operation import OF_A_TOKEN, PAYERS, Operation
from mintscope.edges.api.v1 import mint_of
from mintscope.edges.server.request import Request
from mintscope.edges.server.response import Response


@dataclass(frozen=True, slots=True)
class CandleRoutes:
    """The route of candles."""

    shop: SeriesShop
    encoded: EncodedCandles

    @Operation(
        "GET",
        "/v1/token/{tokenAddress}/candles",
        CandlePage,
        unit="a page",
        refusals=OF_A_TOKEN,
        proofs=PAYERS,
        is_charged=True,
        takes_key=True,
        query=CandlesQuery,
        scope=Scope.TRADE_READ,
    )
    async def get_candles(self, request: Request) -> Response:
        """Candles of a token, up to 1,000 for a credit; none for a page without any.

        Returns candles of a Solana token from its swaps, oldest first, up to 1,000 a page: open,
        high, low and close in USD and SOL, buy and sell volume in USD, number of swaps. Costs one
        credit or one payment a page, and nothing for a page without candles; errors cost nothing.
        Minutes without a swap have no candle unless fill=previous. Times are Unix seconds;
        nextCursor leads to the next page.
        """
        caller = await self.shop.gate.admit(request)
        mint = mint_of(request.path_params["tokenAddress"])
        query = read_query(request, CandlesQuery)
        within = range_of(query)

        async def make() -> Made:
            return await self._read(mint, within)

        return await self.shop.sell(request, caller, Wanted(mint, "candles", query), make)

    async def _read(self, mint: Mint, within: Range) -> Made:
        asked = within.asked
        kept = await self.shop.newest.read(mint, asked)
        if kept is None:
            raise not_tracked(mint)
        if not has_price(kept):
            raise InsufficientData("There is no swap of this token yet that sets a price.")
        series = widened(series_of(kept, asked), within.width)
        page = page_of(series, within, kept.tip.time or UnixS(0))
        wire = wire_page(mint, within, page, kept.tip, self.encoded)
        return made_of(kept.tip, wire, is_empty=not page.candles)


def range_of(query: CandlesQuery) -> Range:
    """Return which candles *query* asks for.  Raises BadRequest."""
    until = read_until(query.cursor, query.tf, query.to)
    if query.from_ > query.to:
        raise BadRequest(f"from: expected at most {query.to}, which is `to`; was {query.from_}")
    return Range(
        width=WIDTHS[query.tf],
        since=UnixS(query.from_),
        until=until,
        limit=query.limit,
        is_filled=query.fill == "previous",
        is_closed=query.candles == "closed",
    )


def read_until(cursor: str, tf: str, to: int) -> UnixS:
    """Return the newest bucket of the page.  Raises BadRequest for a cursor of another series."""
    if not cursor:
        return UnixS(to)
    before = decode_cursor(cursor, Before)
    if before.tf != tf or not 0 <= before.until <= to:
        raise BadRequest(EXPECTED)
    return UnixS(before.until)


def wire_page(
    mint: Mint, within: Range, page: PageOfCandles, tip: LogTip, encoded: EncodedCandles
) -> CandlePage:
    """Return *page* as it is sent, as of *tip*."""
    next_cursor = None
    if page.until is not None:
        next_cursor = encode_cursor(Before(within.width.name, page.until))
    series = f"{mint} {within.width.name} {within.is_filled}"
    ended = UnixS((tip.time or 0) - within.width.seconds)
    candles = cast("list[Candle]", Raw(encoded.page(series, page.candles, ended)))
    return CandlePage(mint, within.width.name, candles, next_cursor)

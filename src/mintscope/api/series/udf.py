"""Candles for charts that use TradingView's UDF (Universal Data Feed): GET /v1/udf/...

The shapes are those of UDF, without the envelope; failures are `{"s": "error", "errmsg": ...}`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import floor, log10
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from mintscope.accounts.keys.scope import Scope
from mintscope.api.discovery.operation import OF_A_TOKEN, PUBLIC_ROUTE, SPENDERS, Operation
from mintscope.api.failures import ErrorFormat
from mintscope.api.query import read_query
from mintscope.api.series.swaps import ReadRows, RowsSold, SeriesShop, not_tracked
from mintscope.api.series.wire import TIME_MAX
from mintscope.api.v1 import mint_of
from mintscope.api.wire import Wire
from mintscope.api.x402 import udf_resource
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ErrorCode, InvalidTokenAddress, ServiceError, TokenNotFound
from mintscope.kit.http.rate_limit import AddressLimit
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import JSON, Response
from mintscope.kit.primitives import MICRO_USD, Mint, UnixMs, UnixS, about
from mintscope.kit.time import SECOND_MS
from mintscope.market.follow.list_cache import ListCache
from mintscope.market.screening.listed import ListLine, ListQuestion, Sort
from mintscope.market.series.pools import KeptCandles
from mintscope.market.series.series import WIDTHS, PageOfCandles, Range, page_of, series_of, widened
from mintscope.solana.blocks import WSOL

RESOLUTIONS: Final = {
    "1": "m1", "5": "m5", "15": "m15", "30": "m30", "60": "h1", "240": "h4", "D": "d1", "1D": "d1",
}  # fmt: skip
SUPPORTED: Final = ["1", "5", "15", "30", "60", "240", "1D"]
BARS_MAX: Final = 10_000
FOUND_MAX: Final = 50
DIGITS: Final = 6  # significant digits of a price in a chart
DECIMALS_MAX: Final = 16
EXCHANGE: Final = "Solana"
PREFIX: Final = f"{EXCHANGE}:"  # charts form full names from the exchange and the symbol
OF_A_SYMBOL: Final = (ErrorCode.INVALID_TOKEN_ADDRESS, ErrorCode.TOKEN_NOT_FOUND, *PUBLIC_ROUTE)
Resolution = Annotated[
    Literal["1", "5", "15", "30", "60", "240", "D", "1D"],
    Meta(description="Minutes of a bar, or 1D.", examples=["5"]),
]
Symbol = Annotated[
    str,
    Meta(min_length=1, max_length=64, description="A mint, or a symbol.", examples=[WSOL]),
]


def as_named(name: str) -> str:
    """Return *name* unchanged: UDF has names with underscores, the rest of the API camelCase."""
    return name


class UdfFailure(Wire):
    """The body of a failed UDF request."""

    s: Annotated[str, about("Always error.", "error")]
    errmsg: Annotated[str, about("The problem.", "This service does not track it.")]


def _failure(error: ServiceError, _at: UnixMs, _request_id: bytes) -> UdfFailure:
    return UdfFailure("error", str(error))


UDF: Final = ErrorFormat(UdfFailure, _failure, hides_code=True)


class UdfConfig(Wire, rename=as_named):
    """The capabilities of the charting feed (UDF)."""

    supported_resolutions: Annotated[list[str], about("Widths of bars.", SUPPORTED)]
    supports_group_request: Annotated[bool, about("Always false.", False)] = False  # noqa: FBT003
    supports_search: Annotated[bool, about("Always true.", True)] = True  # noqa: FBT003
    supports_marks: Annotated[bool, about("Always true.", True)] = True  # noqa: FBT003
    supports_timescale_marks: Annotated[bool, about("Always false.", False)] = False  # noqa: FBT003
    supports_time: Annotated[bool, about("Always true.", True)] = True  # noqa: FBT003


class SymbolQuery(Wire):
    """Query of GET /v1/udf/symbols."""

    symbol: Symbol


class UdfSymbol(Wire, rename=as_named):
    """A token in the form that charts expect."""

    name: Annotated[str, about("Its symbol, or the beginning of its mint.", "SOL")]
    ticker: Annotated[str, about("Its mint, base58.", WSOL)]
    description: Annotated[str, about("Its name.", "Wrapped SOL")]
    pricescale: Annotated[int, about("1 divided by the smallest step of prices shown, USD.", 1000)]
    supported_resolutions: Annotated[list[str], about("Widths of bars.", SUPPORTED)]
    intraday_multipliers: Annotated[list[str], about("Those below a day.", SUPPORTED[:-1])]
    type: Annotated[str, about("Always crypto.", "crypto")] = "crypto"
    session: Annotated[str, about("Always 24x7.", "24x7")] = "24x7"
    timezone: Annotated[str, about("Days are of UTC.", "Etc/UTC")] = "Etc/UTC"
    exchange: Annotated[str, about("Always Solana.", EXCHANGE)] = EXCHANGE
    listed_exchange: Annotated[str, about("Always Solana.", EXCHANGE)] = EXCHANGE
    format: Annotated[str, about("Always price.", "price")] = "price"
    minmov: Annotated[int, about("Always 1.", 1)] = 1
    has_intraday: Annotated[bool, about("Always true.", True)] = True  # noqa: FBT003 - an example
    has_daily: Annotated[bool, about("Always true.", True)] = True  # noqa: FBT003 - an example
    volume_precision: Annotated[int, about("Decimals of volumes, USD.", 2)] = 2
    data_status: Annotated[str, about("Always streaming.", "streaming")] = "streaming"


class SearchQuery(Wire):
    """Query of GET /v1/udf/search."""

    query: Annotated[str, Meta(max_length=64, description="Part of a name, symbol or mint.")] = ""
    type: Annotated[str, Meta(max_length=32, description="Ignored.")] = ""
    exchange: Annotated[str, Meta(max_length=32, description="Ignored.")] = ""
    limit: Annotated[int, Meta(ge=1, description="The most tokens to return, up to 50.")] = 30


class UdfFound(Wire, rename=as_named):
    """A token that a search has found."""

    symbol: Annotated[str, about("Its symbol, or the beginning of its mint.", "SOL")]
    full_name: Annotated[str, about("The same.", "SOL")]
    description: Annotated[str, about("Its name and mint.", "Wrapped SOL")]
    ticker: Annotated[str, about("Its mint, base58.", WSOL)]
    exchange: Annotated[str, about("Always Solana.", EXCHANGE)] = EXCHANGE
    type: Annotated[str, about("Always crypto.", "crypto")] = "crypto"


class HistoryQuery(Wire, rename={"from_": "from"}):
    """Query of GET /v1/udf/history."""

    symbol: Symbol
    resolution: Resolution
    from_: Annotated[int, Meta(le=TIME_MAX, description="From then on, Unix seconds.")] = 0
    to: Annotated[int, Meta(ge=0, le=TIME_MAX, description="Before this, Unix seconds.")] = TIME_MAX
    countback: Annotated[
        int, Meta(ge=0, description="Number of bars before `to`; 0: as many as `from` says.")
    ] = 0


class UdfBars(Wire, omit_defaults=True):
    """Bars of UDF, oldest first."""

    s: Annotated[str, about("ok, or no_data.", "ok")]
    t: Annotated[list[int], about("Starts of bars, Unix seconds.", [1_763_459_700])] = (
        msgspec.field(default_factory=list)
    )
    o: Annotated[list[float], about("Open, USD.", [171.0])] = msgspec.field(default_factory=list)
    h: Annotated[list[float], about("High, USD.", [171.5])] = msgspec.field(default_factory=list)
    l: Annotated[list[float], about("Low, USD.", [170.75])] = msgspec.field(default_factory=list)  # noqa: E741 - as UDF names it
    c: Annotated[list[float], about("Close, USD.", [171.25])] = msgspec.field(default_factory=list)
    v: Annotated[list[float], about("Volume, USD.", [1250.5])] = msgspec.field(default_factory=list)


class MarksQuery(Wire, rename={"from_": "from"}):
    """Query of GET /v1/udf/marks."""

    symbol: Symbol
    resolution: Annotated[str, Meta(max_length=8, description="Ignored.")] = ""
    from_: Annotated[int, Meta(le=TIME_MAX, description="Unix seconds.")] = 0
    to: Annotated[int, Meta(ge=0, le=TIME_MAX, description="Unix seconds.")] = TIME_MAX


class UdfMarks(Wire, rename=as_named):
    """Marks of UDF: lists with one value per mark."""

    id: Annotated[list[int], about("Their numbers.", [1])]
    time: Annotated[list[int], about("Times of marks, Unix seconds.", [1_763_200_800])]
    color: Annotated[list[str], about("Their colours.", ["blue"])]
    text: Annotated[list[str], about("Their texts.", ["Tracked from here on"])]
    label: Annotated[list[str], about("A character each.", ["F"])]
    labelFontColor: Annotated[list[str], about("Of the label.", ["white"])]  # noqa: N815 - of UDF
    minSize: Annotated[list[int], about("Pixels.", [14])]  # noqa: N815 - of UDF


@dataclass(frozen=True, slots=True, kw_only=True)
class UdfRoutes:
    """The routes of UDF; all but the bars are free, and limited by client address."""

    shop: SeriesShop
    lists: ListCache
    limit: AddressLimit
    clock: Clock

    @Operation("GET", "/v1/udf/config", UdfConfig, refusals=PUBLIC_ROUTE, error_format=UDF)
    async def get_udf_config(self, request: Request) -> Response:
        """Charting feed (UDF): its configuration.

        Returns the configuration of a data feed in TradingView's UDF. Costs nothing.
        """
        await self.limit.pass_through(request)
        return _sent(UdfConfig(SUPPORTED))

    @Operation("GET", "/v1/udf/time", int, refusals=PUBLIC_ROUTE, error_format=UDF)
    async def get_udf_time(self, request: Request) -> Response:
        """Charting feed (UDF): the time of the service.

        Returns Unix seconds as text. Costs nothing.
        """
        await self.limit.pass_through(request)
        return _sent(self.clock.now() // SECOND_MS)

    @Operation(
        "GET",
        "/v1/udf/symbols",
        UdfSymbol,
        refusals=OF_A_SYMBOL,
        query=SymbolQuery,
        error_format=UDF,
    )
    async def get_udf_symbol(self, request: Request) -> Response:
        """Charting feed (UDF): a token by its mint or symbol.

        Returns the token as a chart shows it. A symbol stands for the most traded token with that
        symbol. Costs nothing.
        """
        await self.limit.pass_through(request)
        line = await self._found(read_query(request, SymbolQuery).symbol)
        return _sent(
            UdfSymbol(
                name=_symbol_of(line),
                ticker=line.listed.mint,
                description=line.listed.name or line.listed.mint,
                pricescale=shown_scale(line.usd),
                supported_resolutions=SUPPORTED,
                intraday_multipliers=SUPPORTED[:-1],
            )
        )

    @Operation(
        "GET",
        "/v1/udf/search",
        list[UdfFound],
        refusals=PUBLIC_ROUTE,
        query=SearchQuery,
        error_format=UDF,
    )
    async def list_udf_symbols(self, request: Request) -> Response:
        """Charting feed (UDF): tokens by a part of their name or mint.

        Returns the tokens that match, at most 50, the most traded first. Costs nothing.
        """
        await self.limit.pass_through(request)
        asked = read_query(request, SearchQuery)
        question = ListQuestion(
            text=asked.query.strip(),
            in_any_case=True,  # charts send the search text in upper case
            sort=Sort.VOLUME,
            limit=min(asked.limit, FOUND_MAX),
        )
        return _sent(
            [
                UdfFound(
                    symbol=_symbol_of(line),
                    full_name=_symbol_of(line),
                    description=f"{line.listed.name or ''} {line.listed.mint}".strip(),
                    ticker=line.listed.mint,
                )
                for line in await self._lines(question)
            ]
        )

    @Operation(
        "GET",
        "/v1/udf/history",
        UdfBars,
        unit="for up to 1,000 bars",
        refusals=OF_A_TOKEN,
        proofs=SPENDERS,
        is_charged=True,
        takes_key=True,
        query=HistoryQuery,
        scope=Scope.TRADE_READ,
        error_format=UDF,
    )
    async def get_udf_history(self, request: Request) -> Response:
        """Charting feed (UDF): bars of a token, up to 1,000 for a credit.

        Returns the newest bars before `to`, up to 10,000: all since `from`, or as many as
        countback says. Costs one credit for each started 1,000 bars; no bars cost nothing. Paid
        with credits alone: the feed of a chart sends the Authorization header.
        """
        caller = await self.shop.gate.admit_buyer(request)
        asked = read_query(request, HistoryQuery)
        mint = await self._mint(asked.symbol)
        sold = RowsSold(udf_resource(asked), JSON[1].decode())
        read = partial(self._bars, mint, _range(asked))
        return await self.shop.sell_rows(request, caller, sold, read)

    @Operation(
        "GET",
        "/v1/udf/marks",
        UdfMarks,
        refusals=OF_A_SYMBOL,
        query=MarksQuery,
        error_format=UDF,
    )
    async def get_udf_marks(self, request: Request) -> Response:
        """Charting feed (UDF): where the data of a token begins.

        Returns a mark at the time since which the token is tracked, if that is between `from` and
        `to`: bars before it were read from the past, or imported. Costs nothing.
        """
        await self.limit.pass_through(request)
        asked = read_query(request, MarksQuery)
        since = (await self._found(asked.symbol)).listed.since
        times = [since] if since is not None and asked.from_ <= since <= asked.to else []
        return _sent(
            UdfMarks(
                id=[1 for _ in times],
                time=[int(each) for each in times],
                color=["blue" for _ in times],
                text=["Tracked from here on" for _ in times],
                label=["F" for _ in times],
                labelFontColor=["white" for _ in times],
                minSize=[14 for _ in times],
            )
        )

    async def _bars(self, mint: Mint, within: Range) -> ReadRows:
        kept = await self.shop.newest.read(mint, within.asked)
        if kept is None:
            raise not_tracked(mint)
        page = await asyncio.to_thread(_page_of, kept, within)
        return ReadRows(kept.tip, len(page.candles), partial(_drawn, page))

    async def _lines(self, question: ListQuestion) -> Sequence[ListLine]:
        """Search the newest list of tokens in a thread; return the tokens for *question*."""
        return (await asyncio.to_thread(self.lists.newest().page, question)).lines

    async def _mint(self, symbol: str) -> Mint:
        """Return *symbol* if it is a mint; else the mint of the most traded token of that symbol.

        Raises TokenNotFound.
        """
        try:
            return mint_of(symbol.removeprefix(PREFIX))
        except InvalidTokenAddress:
            return (await self._found(symbol)).listed.mint

    async def _found(self, symbol: str) -> ListLine:
        """Return the token whose mint or symbol is *symbol*.  Raises TokenNotFound.

        The mint takes precedence, because an issuer can use the mint of another token as a symbol.
        """
        symbol = symbol.removeprefix(PREFIX)
        of_mint = ListQuestion(among=[Mint(symbol)], limit=1)
        of_symbol = ListQuestion(symbol=symbol, sort=Sort.VOLUME, limit=1)
        for question in (of_mint, of_symbol):
            for line in await self._lines(question):
                return line
        raise TokenNotFound(f"This service does not track {symbol}.")


def _sent(data: object) -> Response:
    return Response(200, msgspec.json.encode(data))


def _symbol_of(line: ListLine) -> str:
    return line.listed.symbol or line.listed.mint[:8]


def shown_scale(usd: float | None) -> int:
    """Return UDF's `pricescale` for a price: 1 divided by the step in which it is shown.

    The step shows DIGITS significant digits of *usd*, with 2 to DECIMALS_MAX decimals; if *usd* is
    None, with 2.
    """
    if usd is None:
        return 100
    decimals = DIGITS - 1 - floor(log10(usd))
    return int(10 ** min(max(decimals, 2), DECIMALS_MAX))


def _range(asked: HistoryQuery) -> Range:
    within = Range(
        width=WIDTHS[RESOLUTIONS[asked.resolution]],
        since=UnixS(max(0, asked.from_)),
        until=UnixS(max(0, asked.to - 1)),  # bars that begin at `to` are excluded
        limit=BARS_MAX,
    )
    if not asked.countback:
        return within
    # By UDF, countback has precedence over `from`.
    return replace(within, since=UnixS(0), limit=min(asked.countback, BARS_MAX))


def _page_of(kept: KeptCandles, within: Range) -> PageOfCandles:
    series = widened(series_of(kept, within.asked), within.width)
    return page_of(series, within, kept.tip.time or UnixS(0))


def _drawn(page: PageOfCandles) -> bytes:
    """Return the candles of *page* as JSON in the form of TradingView's UDF."""
    return msgspec.json.encode(_bars_of(page))


def _bars_of(page: PageOfCandles) -> UdfBars:
    found = page.candles
    if not found:
        return UdfBars("no_data")
    return UdfBars(
        "ok",
        [one.bucket for one in found],
        [one.open for one in found],
        [one.high for one in found],
        [one.low for one in found],
        [one.close for one in found],
        [
            (one.buy_volume + one.sell_volume + (one.imported_volume or 0)) / MICRO_USD
            for one in found
        ],
    )

"""POST /v1/prices: prices of tokens at times of the past, up to 100 for a credit."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mintscope.accounts.keys.scope import Scope
from mintscope.api.description.operation import OF_TOKENS, SPENDERS, Operation
from mintscope.api.series.swaps import not_tracked
from mintscope.api.series.wire import TIME_MAX
from mintscope.api.v1 import NOT_TRACKED, V1, mint_of
from mintscope.api.wire import ErrorBody, Wire, success_with_body
from mintscope.kit.errors import BadRequest, ErrorCode, ServiceUnavailable, TokenNotFound
from mintscope.kit.http.request import Request, UnreadableBody, parse_shape
from mintscope.kit.http.response import Response
from mintscope.kit.primitives import AddressText, Mint, UnixS, about
from mintscope.market.report import ReadReport
from mintscope.market.series.pools import AskedCandles, SeriesCandle, SeriesReader
from mintscope.market.series.series import series_of
from mintscope.market.timeframe import TIMEFRAMES, WIDTH_S, Timeframe
from mintscope.payments.checkout import Delivered
from mintscope.payments.merchant import Order
from mintscope.payments.protocol.envelope import Resource
from mintscope.solana.blocks import USDC, WSOL

PRICES_PATH: Final = "/v1/prices"
PRICES_MAX: Final = 100
PRICES_ORDER: Final = Order(Resource(PRICES_PATH), price=lambda _: 0, is_for_credits=True)


class PriceAsked(Wire, forbid_unknown_fields=True):
    """A token and a time."""

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
    """A past price."""

    usd: Annotated[float, about("US dollars for one whole token.", 171.25)]
    sol: Annotated[float | None, about("SOL for one whole token; null: not kept.", 1.0)]
    closed_at: Annotated[
        int, about("The end of the candle whose close it is, Unix seconds: by t.", 1_763_460_000)
    ]
    tf: Annotated[str, about("The candles that are kept of that time: m1, m5, m15 or h1.", "m1")]


class PriceLine(Wire):
    """The price of one token at one time, or the error that says why there is none."""

    token: Annotated[str, about("The mint, base58.", WSOL, USDC)]
    t: Annotated[int, about("The time that was asked for, Unix seconds.", 1_763_460_000)]
    price: Annotated[PriceAt | UnsetType, about("Its price, if it is known.")] = UNSET
    error: Annotated[
        ErrorBody | UnsetType, about("Why it is not.", NOT_TRACKED, instead_of="price")
    ] = UNSET


class PricePage(Wire):
    """A line for each token and time, in the order of the request."""

    found: Annotated[int, about("How many prices there are.", 1)]
    prices: Annotated[list[PriceLine], about("A line for each.")]


class _Close(NamedTuple):
    candle: SeriesCandle
    timeframe: Timeframe


@dataclass(frozen=True, slots=True)
class PriceRoutes:
    """The route of past prices, built on *v1*."""

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
        had closed by then, of the narrowest candles that are kept of that time, or why there is
        none. Costs one credit, and nothing if there is no price at all. Paid with credits alone.
        """
        caller = await self.v1.gate.admit(request)
        body = await request.body()
        try:
            asked = parse_shape(request, body, PricesRequest)
        except UnreadableBody as flaw:
            raise BadRequest(str(flaw)) from flaw
        pairs = [(mint_of(each.mint), UnixS(each.t)) for each in asked.prices]
        found = await self.v1.resource_server.sell_report(
            request, caller, PRICES_ORDER, partial(self._read_prices, request, pairs)
        )
        request.response_headers += self.v1.freshness.headers(slot=found.slot, age_ms=found.age_ms)
        answer = success_with_body(
            found.body, at=self.v1.clock.now(), request_id=request.request_id
        )
        return Response(200, answer)

    async def _read_prices(
        self, request: Request, pairs: Sequence[tuple[Mint, UnixS]]
    ) -> Delivered:
        """Return a line for each of *pairs*, with their cost in credits."""
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
    """Return the newest candle of *mint* that closed by *at*, of the narrowest timeframe.

    None: none is kept.  Raises TokenNotFound.
    """
    for timeframe in TIMEFRAMES:
        asked = AskedCandles(timeframe, UnixS(max(0, at - WIDTH_S[timeframe])), 1)
        kept = await reader.candles(mint, asked)
        if kept is None:
            raise not_tracked(mint)
        candles = series_of(kept, asked).candles
        if candles and candles[-1].bucket <= asked.until:
            return _Close(candles[-1], timeframe)
    return None

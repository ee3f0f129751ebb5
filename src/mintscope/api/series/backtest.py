"""Backtests: a condition is evaluated over the past of one or several tokens.

GET /v1/token/{tokenAddress}/backtest: one token, for a credit.
POST /v1/backtest: up to 50 tokens, such as a watchlist, for a credit per 10,000 candles read.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from msgspec import UNSET, Meta, UnsetType

from mintscope.accounts.keys.scope import Scope
from mintscope.api.discovery.operation import OF_TOKENS, SPENDERS, Operation, PriceRange, sold_page
from mintscope.api.query import NoQuery, read_query
from mintscope.api.series.swaps import Made, SeriesShop, Wanted, made_of, not_tracked
from mintscope.api.series.wire import TIME_MAX, Token
from mintscope.api.v1 import NOT_TRACKED, each_once, mint_of
from mintscope.api.wire import ErrorBody, Wire, read_body
from mintscope.kit.errors import BadRequest, InsufficientData, TokenNotFound
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Response
from mintscope.kit.primitives import EACH_ONCE, AddressText, Mint, UnixS, about
from mintscope.kit.time import DAY_S
from mintscope.market.log import LogTip
from mintscope.market.screening.backtest import (
    CANDLES_READ_MAX,
    FIRINGS_MAX,
    HORIZONS,
    Backtested,
    BacktestQuestion,
    Firing,
    PastCandles,
    ReturnsAfter,
    UntestableCondition,
    backtest,
    needed_timeframes,
    pooled,
    rows_before,
)
from mintscope.market.screening.grammar import (
    ALL_FIELDS,
    TEXT_MAX,
    Condition,
    ConditionError,
    parse_condition,
)
from mintscope.market.series.pools import AskedCandles, KeptCandles, SeriesCandle
from mintscope.market.series.series import (
    FROM_THE_FIRST,
    WIDTHS,
    Start,
    has_price,
    series_of,
    start_of,
    widened,
)
from mintscope.market.timeframe import BY_NAME, WIDTH_S, AnyFrame, AskedFrame, Timeframe
from mintscope.payments.merchant import Order
from mintscope.payments.pricing import REQUEST_USD
from mintscope.payments.protocol.envelope import Resource
from mintscope.solana.blocks import WSOL

EXAMPLE: Final = "crosses_below(rsi_m5, 30) and price > ema200_h1"
BASIS_POINTS: Final = 10_000
FEE_BPS_MAX: Final = 1_000
TRADE_USD_MAX: Final = 10_000_000
RETURN: Final = "Return of a purchase sold then, both fees taken off: 0.01 is 1 %; null: not yet."


class BacktestQuery(Wire, rename={"from_": "from", "fee_bps": "feeBps", "trade_usd": "tradeUsd"}):
    """Query of GET /v1/token/{tokenAddress}/backtest."""

    where: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=TEXT_MAX,
            description="A condition as of screens: price, change, volume, swaps, pressure, and"
            " fields of candles as wide as tf or wider.",
            examples=[EXAMPLE],
        ),
    ]
    tf: Annotated[
        Literal["m1", "m5", "m15", "m30", "h1", "h4", "d1"],
        Meta(description="The condition is evaluated when such a candle closes.", examples=["m5"]),
    ] = "m5"
    from_: Annotated[int, Meta(ge=0, le=TIME_MAX, description="First check, Unix seconds.")] = 0
    to: Annotated[int, Meta(ge=0, le=TIME_MAX, description="Last check, Unix seconds.")] = TIME_MAX
    fee_bps: Annotated[
        int,
        Meta(
            ge=0,
            le=FEE_BPS_MAX,
            description="Cost of each trade, basis points.",
        ),
    ] = 30
    trade_usd: Annotated[
        float,
        Meta(
            ge=0,
            le=TRADE_USD_MAX,
            description="Size of a trade, USD: its price impact, estimated from the 50 candles"
            " before, is taken off, too. 0: no impact.",
        ),
    ] = 0.0

    candles: Annotated[
        Literal["closed", "all"],
        Meta(
            description="all: fields of candles wider than tf are those of the candle that was open"
            " then, as in a screen; closed: of the newest that had closed."
        ),
    ] = "closed"


class ReturnsOf(Wire):
    """The returns after one firing, one for each horizon."""

    m5: Annotated[float | None, about(f"5 minutes later. {RETURN}", 0.004)]
    h1: Annotated[float | None, about(f"An hour later. {RETURN}", 0.012)]
    h4: Annotated[float | None, about(f"4 hours later. {RETURN}", -0.003)]
    d1: Annotated[float | None, about(f"A day later. {RETURN}", None)]


class FiringLine(Wire):
    """A time at which the condition became true."""

    t: Annotated[int, about("The end of the candle, Unix seconds.", 1_763_460_000)]
    price: Annotated[float, about("Its close, US dollars.", 171.25)]
    returns: Annotated[ReturnsOf, about("What followed.")]
    best: Annotated[
        float | None, about("Change to the highest price within a day so far, a fraction.", 0.031)
    ]
    worst: Annotated[
        float | None, about("Change to the lowest price within a day so far, a fraction.", -0.012)
    ]

    @classmethod
    def of(cls, firing: Firing) -> "FiringLine":
        """Return *firing* as a line of the response."""
        returns = ReturnsOf(**firing.returns)
        return cls(firing.time, firing.price, returns, firing.best, firing.worst)


class HorizonLine(Wire):
    """The returns after one span of time, of firings and, for comparison, of all checks."""

    after: Annotated[str, about("The horizon: m5, h1, h4 or d1.", "h1")]
    count: Annotated[int, about("Firings whose return is known.", 14)]
    hit_rate: Annotated[float | None, about("Part of these returns above 0, 0 to 1.", 0.64)]
    mean_return: Annotated[float | None, about("Mean of these returns, a fraction.", 0.006)]
    all_count: Annotated[int, about("Checks whose return is known.", 2_000)]
    all_hit_rate: Annotated[
        float | None, about("Part of these returns above 0, as by chance.", 0.4)
    ]
    all_mean_return: Annotated[float | None, about("Mean of these returns, a fraction.", -0.002)]

    @classmethod
    def of(cls, name: str, found: ReturnsAfter, chance: ReturnsAfter) -> "HorizonLine":
        """Return the line about the returns after the time span *name*.

        found, chance   the returns after firings, and the returns after all checks of the condition
        """
        return cls(name, *found, *chance)


class BacktestPage(Wire, rename={"from_": "from"}):
    """Firings of a condition, and the returns that followed."""

    token: Token
    tf: Annotated[str, about("The candles at whose ends the condition is evaluated.", "m5")]
    from_: Annotated[int | None, about("The first check, Unix seconds; null: none.", 1_763_200_800)]
    to: Annotated[int | None, about("The last check, Unix seconds; null: none.", 1_763_460_000)]
    looks: Annotated[int, about("Number of checks: one for each candle with a trade.", 2016)]
    fired: Annotated[int, about("Number of firings.", 15)]
    horizons: Annotated[list[HorizonLine], about("Returns by horizon.")]
    firings: Annotated[list[FiringLine], about("The newest 500 firings, oldest first.")]


PATH: Final = "/v1/backtest"
TOKENS_MAX: Final = 50
CREDITS_MAX: Final = 4 * TOKENS_MAX  # each token has up to four stored timeframes
ORDER: Final = Order(Resource(PATH), price=lambda _: 0, is_for_credits=True)


class BacktestRequest(BacktestQuery, forbid_unknown_fields=True, kw_only=True):
    """Body of POST /v1/backtest."""

    mints: Annotated[
        list[AddressText],
        Meta(
            min_length=1,
            max_length=TOKENS_MAX,
            description="Token mint addresses, each once.",
            examples=[[WSOL]],
            extra_json_schema=EACH_ONCE,
        ),
    ]


class BacktestedToken(Wire):
    """One token of a backtest, or the error that explains its absence."""

    token: Token
    first: Annotated[int | None, about("The first check, Unix seconds; null: none.", 1_763_200_800)]
    last: Annotated[int | None, about("The last check, Unix seconds; null: none.", 1_763_460_000)]
    looks: Annotated[int, about("Number of checks.", 2016)]
    fired: Annotated[int, about("Number of firings.", 15)]
    error: Annotated[
        ErrorBody | UnsetType,
        about("The reason for a token without data; absent otherwise.", NOT_TRACKED),
    ] = UNSET


class TokenFiringLine(FiringLine):
    """A firing in the past of one token, with the mint of the token."""

    token: Annotated[str, about("The mint, base58.", WSOL)]

    @classmethod
    def of_token(cls, mint: Mint, firing: Firing) -> "TokenFiringLine":
        """Return *firing* of *mint* as a line of the response."""
        returns = ReturnsOf(**firing.returns)
        return cls(firing.time, firing.price, returns, firing.best, firing.worst, mint)


class BacktestOfTokens(Wire, kw_only=True):
    """The firings of a condition in the past of several tokens, and the returns that followed."""

    tf: Annotated[str, about("The candles at whose ends the condition is evaluated.", "m5")]
    candles: Annotated[int, about("Candles that were read.", 4_032)]
    looks: Annotated[int, about("Number of checks, of all tokens.", 4_032)]
    fired: Annotated[int, about("Number of firings, of all tokens.", 31)]
    horizons: Annotated[list[HorizonLine], about("Returns by horizon, of all tokens together.")]
    tokens: Annotated[list[BacktestedToken], about("A line a token, as they were asked for.")]
    firings: Annotated[
        list[TokenFiringLine], about("The newest 500 firings of all tokens, oldest first.")
    ]


@dataclass(frozen=True, slots=True)
class BacktestRoutes:
    """The handlers of GET /v1/token/{tokenAddress}/backtest and POST /v1/backtest."""

    shop: SeriesShop

    @sold_page(
        "/v1/token/{tokenAddress}/backtest",
        BacktestPage,
        query=BacktestQuery,
        unit="for up to 10,000 candles",
    )
    async def get_backtest(self, request: Request) -> Response:
        """Backtest a condition on a token: each firing, and its returns.

        Returns the times at which a screen condition became true for a Solana token when a candle
        closed, oldest first, and the returns after 5 minutes, 1 and 4 hours and a day, less fees,
        and, for comparison, those after all candles. A firing uses no later data. Reads
        up to 10,000 candles of each stored timeframe, the newest until a day after `to`. Costs one
        credit or one payment, and nothing if no candle was evaluated; errors cost nothing, and say
        at which character the condition is wrong.
        """
        caller = await self.shop.gate.admit_buyer(request)
        mint = mint_of(request.path_params["tokenAddress"])
        query = read_query(request, BacktestQuery)
        condition = checked_condition(query)

        async def make() -> Made:
            tip, page = await self._page(mint, query, condition)
            return made_of(tip, page, is_empty=not page.looks)

        return await self.shop.sell(request, caller, Wanted(mint, "backtest", query), make)

    @Operation(
        "POST",
        PATH,
        BacktestOfTokens,
        unit="for each 10,000 candles",
        price=PriceRange(REQUEST_USD, REQUEST_USD * CREDITS_MAX),
        refusals=OF_TOKENS,
        proofs=SPENDERS,
        is_charged=True,
        takes_key=True,
        body=BacktestRequest,
        scope=Scope.TRADE_READ,
    )
    async def backtest_tokens(self, request: Request) -> Response:
        """Backtest a condition on up to 50 tokens: each firing, and its returns.

        Returns the times at which a condition became true for each of up to 50 Solana tokens, such
        as those of a watchlist, when a candle closed, and the returns that followed, of all tokens
        together, and, for comparison, those after all candles. A token without data has an error in
        its line. Costs one credit for each started 10,000 candles read of all tokens and
        timeframes, and nothing if none was evaluated. Paid with credits alone.
        """
        caller = await self.shop.gate.admit_buyer(request)
        read_query(request, NoQuery)
        asked = await read_body(request, BacktestRequest)
        mints = each_once(asked.mints)
        condition = checked_condition(asked)

        async def expect(credit_count: int) -> None:
            request.expect_client()
            await self.shop.resource_server.expect_credits(request, caller, ORDER, credit_count)

        make = partial(self._of_tokens, mints, asked, condition, expect)
        return await self.shop.sell_counted(request, caller, ORDER, make)

    async def _of_tokens(
        self,
        mints: Sequence[Mint],
        query: BacktestQuery,
        condition: Condition,
        expect: Callable[[int], Awaitable[None]],
    ) -> tuple[Made, int]:
        """Return the response for a backtest on all of *mints*, and its cost in credits.

        expect   called before each token with the cost so far; raises if the client cannot pay, or
                 has left, so that no more work is done
        """
        tip = await self.shop.reader.tip()
        lines: list[BacktestedToken] = []
        found: dict[Mint, Backtested] = {}
        rows = 0
        for mint in mints:
            await expect(_cost(rows, found.values()))
            try:
                past = await self._backtest(mint, query, condition)
            except (TokenNotFound, InsufficientData) as failure:
                error = ErrorBody(failure.code, str(failure))
                lines.append(BacktestedToken(mint, None, None, 0, 0, error))
                continue
            rows += past.rows
            found[mint] = one = past.found
            lines.append(BacktestedToken(mint, one.first, one.last, one.looks, one.fired))
        firings = newest_firings(found)
        page = BacktestOfTokens(
            tf=query.tf,
            candles=rows,
            looks=sum(one.looks for one in found.values()),
            fired=sum(one.fired for one in found.values()),
            horizons=_pooled(list(found.values())),
            tokens=lines,
            firings=[TokenFiringLine.of_token(mint, one) for mint, one in firings],
        )
        return made_of(tip, page, is_empty=not page.looks), _cost(rows, found.values())

    async def _page(
        self, mint: Mint, query: BacktestQuery, condition: Condition
    ) -> tuple[LogTip, BacktestPage]:
        past = await self._backtest(mint, query, condition)
        return past.tip, _page_of(mint, BY_NAME[query.tf], past.found)

    async def _backtest(
        self, mint: Mint, query: BacktestQuery, condition: Condition
    ) -> "TestedPast":
        now = (await self.shop.reader.tip()).time or UnixS(0)
        return await findings_of(self.shop.newest.read, now, mint, query, condition)


class TestedPast(NamedTuple):
    """The result of a backtest on one token.

    tip       the oldest of the positions of the log from which candles were read
    rows      number of candles read, of all timeframes
    candles   candles of the test's timeframe, oldest first, including the open one
    """

    tip: LogTip
    found: Backtested
    rows: int
    candles: Sequence[SeriesCandle]


CandlesOf: TypeAlias = Callable[[Mint, AskedCandles], Awaitable[KeptCandles | None]]


async def findings_of(
    read_candles: CandlesOf, now: UnixS, mint: Mint, query: BacktestQuery, condition: Condition
) -> TestedPast:
    """Return the result of a backtest of *condition* on *mint*.

    read_candles   returns candles of a mint; None if the mint is not tracked
    now            the time of the newest slot
    Raises         TokenNotFound, InsufficientData
    """
    base = BY_NAME[query.tf]
    frames = needed_timeframes(condition, base)
    read: dict[Timeframe, tuple[KeptCandles, AskedCandles]] = {}
    for asked in _asked_candles(query, condition, frames, min(query.to, now)):
        kept = await read_candles(mint, asked)
        if kept is None:
            raise not_tracked(mint)
        if not has_price(kept):
            raise InsufficientData("No swap has set a price of this token yet.")
        read[asked.timeframe] = (kept, asked)
    # Each timeframe was read from a snapshot of its own; all are complete up to the oldest tip.
    tip = min((kept.tip for kept, _ in read.values()), key=lambda tip: tip.time or 0)
    question = BacktestQuestion(
        condition,
        base,
        UnixS(query.from_),
        UnixS(query.to),
        tip.time or UnixS(0),
        query.fee_bps / BASIS_POINTS,
        query.trade_usd,
        query.candles == "all",
    )
    return await asyncio.to_thread(_backtested, tip, question, frames, read)


def _cost(rows: int, found: Iterable[Backtested]) -> int:
    """Return the cost in credits of a backtest that read *rows* candles; 0 if it checked none."""
    return -(-rows // CANDLES_READ_MAX) if any(one.looks for one in found) else 0


def newest_firings(found: Mapping[Mint, Backtested]) -> list[tuple[Mint, Firing]]:
    """Return the newest FIRINGS_MAX firings of all mints, oldest first."""
    firings = [(mint, firing) for mint, one in found.items() for firing in one.firings]
    return sorted(firings, key=lambda each: (each[1].time, each[0]))[-FIRINGS_MAX:]


def _pooled(found: Sequence[Backtested]) -> list["HorizonLine"]:
    return [
        HorizonLine.of(
            name,
            pooled([one.found[name] for one in found]),
            pooled([one.baseline[name] for one in found]),
        )
        for name in HORIZONS
    ]


def checked_condition(query: BacktestQuery) -> Condition:
    """Return the condition of *query*.  Raises BadRequest."""
    try:
        condition = parse_condition(query.where, ALL_FIELDS)
        needed_timeframes(condition, BY_NAME[query.tf])
    except (ConditionError, UntestableCondition) as flaw:
        raise BadRequest(f"where: {flaw}") from flaw
    if query.from_ > query.to:
        raise BadRequest(f"from: expected at most {query.to}, which is `to`; was {query.from_}")
    return condition


def _asked_candles(
    query: BacktestQuery, condition: Condition, frames: Sequence[AnyFrame], last: int
) -> Iterable[AskedCandles]:
    """Return the ranges of stored candles that a backtest of *condition* needs.

    frames   the timeframes of the candles that *condition* names
    last     the time of the last check of *condition*; the candles reach at least a day beyond it,
             because returns are computed from them

    A frame that is not stored is computed from candles of a narrower timeframe, which is read once.
    These are read up to the end of a wide candle, so that the newest wide candle is complete unless
    it is open.
    """
    base = BY_NAME[query.tf]
    has_open = query.candles == "all"
    found: dict[Timeframe, AskedCandles] = {}
    for frame in frames:
        _, width_s, kept = WIDTHS[frame]
        until = last + DAY_S
        count = max(0, until - query.from_) // width_s
        count += rows_before(condition, frame, base, has_open=has_open)
        until += width_s - 1 - until % width_s
        count += 2  # the candle that closes at the first time, and the candle of the last second
        count += isinstance(frame, AskedFrame)  # the oldest candle may lack its beginning
        rows = min(CANDLES_READ_MAX, count * (width_s // WIDTH_S[kept]))
        others = found.get(kept, AskedCandles(kept, UnixS(0), 0))
        found[kept] = AskedCandles(
            kept, UnixS(max(until, others.until)), max(rows, others.rows_max)
        )
    return found.values()


def _backtested(
    tip: LogTip,
    question: BacktestQuestion,
    frames: Sequence[AnyFrame],
    read: dict[Timeframe, tuple[KeptCandles, AskedCandles]],
) -> TestedPast:
    """Return the result of the backtest *question*.

    frames   the timeframes of *question*, which are stored, or computed from stored ones
    read     the stored candles, and the request for them, by timeframe
    """
    kept_series = {each: series_of(kept, asked) for each, (kept, asked) in read.items()}
    past: dict[AnyFrame, PastCandles] = {}
    for frame in frames:
        width = WIDTHS[frame]
        series = kept_series[width.kept]
        # Wide frames have no waypoints; `backtest` skips candles whose averages are not exact yet.
        start: Start | None = FROM_THE_FIRST
        if isinstance(frame, AskedFrame):
            series = widened(series, width)
        else:
            start = start_of(series, read[frame][0].waypoints)
        past[frame] = PastCandles(series, start)
    rows = sum(len(each.candles) for each in kept_series.values())
    candles = past[question.timeframe].series.candles
    return TestedPast(tip, backtest(question, past), rows, candles)


def _page_of(mint: Mint, base: AnyFrame, found: Backtested) -> BacktestPage:
    horizons = [HorizonLine.of(name, of, found.baseline[name]) for name, of in found.found.items()]
    return BacktestPage(
        mint,
        base,
        found.first,
        found.last,
        found.looks,
        found.fired,
        horizons,
        [FiringLine.of(each) for each in found.firings],
    )

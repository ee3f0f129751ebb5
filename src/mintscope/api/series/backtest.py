"""GET /v1/token/{tokenAddress}/backtest: a condition over the past of a token, for a credit."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec import Meta

from mintscope.accounts.keys.scope import Scope
from mintscope.api.description.operation import OF_A_TOKEN, PAYERS, Operation
from mintscope.api.series.swaps import Made, SeriesShop, Wanted, made_of, not_tracked
from mintscope.api.series.wire import TIME_MAX, Token
from mintscope.api.v1 import mint_of
from mintscope.api.wire import Wire, read_query
from mintscope.kit.errors import BadRequest, InsufficientData
from mintscope.kit.http.request import Request
from mintscope.kit.http.response import Response
from mintscope.kit.primitives import Mint, UnixS, about
from mintscope.kit.time import DAY_S
from mintscope.market.log import LogTip
from mintscope.market.screening.backtest import (
    CANDLES_READ_MAX,
    Backtested,
    BacktestQuestion,
    Firing,
    PastCandles,
    ReturnsAfter,
    UntestableCondition,
    backtest,
    needed_timeframes,
    rows_before,
)
from mintscope.market.screening.grammar import TEXT_MAX, Condition, ConditionError, parse_condition
from mintscope.market.series.pools import AskedCandles, KeptCandles
from mintscope.market.series.series import has_price, series_of, start_of
from mintscope.market.timeframe import WIDTH_S, Timeframe

EXAMPLE: Final = "crosses_below(rsi_m5, 30) and price > ema200_h1"
BASIS_POINTS: Final = 10_000
FEE_BPS_MAX: Final = 1_000
RETURN: Final = "Return of a purchase sold then, both fees taken off: 0.01 is 1 %; null: not over."


class BacktestQuery(Wire, rename={"from_": "from", "fee_bps": "feeBps"}):
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
        Literal["m1", "m5", "m15", "h1"],
        Meta(description="It is looked at when such a candle closes.", examples=["m5"]),
    ] = "m5"
    from_: Annotated[int, Meta(ge=0, le=TIME_MAX, description="First look, Unix seconds.")] = 0
    to: Annotated[int, Meta(ge=0, le=TIME_MAX, description="Last look, Unix seconds.")] = TIME_MAX
    fee_bps: Annotated[
        int,
        Meta(
            ge=0,
            le=FEE_BPS_MAX,
            description="Cost of each trade, basis points.",
        ),
    ] = 30


class ReturnsOf(Wire):
    """A number for each horizon."""

    m5: Annotated[float | None, about(f"5 minutes later. {RETURN}", 0.004)]
    h1: Annotated[float | None, about(f"An hour later. {RETURN}", 0.012)]
    h4: Annotated[float | None, about(f"4 hours later. {RETURN}", -0.003)]
    d1: Annotated[float | None, about(f"A day later. {RETURN}", None)]


class FiringLine(Wire):
    """One time at which the condition became true."""

    t: Annotated[int, about("The end of the candle, Unix seconds.", 1_763_460_000)]
    price: Annotated[float, about("Its close, US dollars.", 171.25)]
    returns: Annotated[ReturnsOf, about("What followed.")]
    best: Annotated[
        float | None, about("To the highest price within a day so far, as a fraction.", 0.031)
    ]
    worst: Annotated[
        float | None, about("To the lowest price within a day so far, as a fraction.", -0.012)
    ]

    @classmethod
    def of(cls, firing: Firing) -> "FiringLine":
        """Return *firing* as it is sent."""
        returns = ReturnsOf(**firing.returns)
        return cls(firing.time, firing.price, returns, firing.best, firing.worst)


class HorizonLine(Wire):
    """Returns after one horizon: of the firings, and of all times that were looked at."""

    after: Annotated[str, about("The horizon: m5, h1, h4 or d1.", "h1")]
    count: Annotated[int, about("Firings whose return is known.", 14)]
    hit_rate: Annotated[float | None, about("Their part above 0, 0 to 1.", 0.64)]
    mean_return: Annotated[float | None, about("Their mean, as a fraction.", 0.006)]
    all_count: Annotated[int, about("Times whose return is known.", 2_000)]
    all_hit_rate: Annotated[float | None, about("Their part above 0: the hit rate of chance.", 0.4)]
    all_mean_return: Annotated[float | None, about("Their mean, as a fraction.", -0.002)]

    @classmethod
    def of(cls, name: str, found: ReturnsAfter, chance: ReturnsAfter) -> "HorizonLine":
        """Return the line of the horizon *name*."""
        return cls(name, *found, *chance)


class BacktestPage(Wire, rename={"from_": "from"}):
    """Firings of a condition, and the returns that followed."""

    token: Token
    tf: Annotated[str, about("The candles at whose ends it was looked at.", "m5")]
    from_: Annotated[int | None, about("The first look, Unix seconds; null: none.", 1_763_200_800)]
    to: Annotated[int | None, about("The last look, Unix seconds; null: none.", 1_763_460_000)]
    looks: Annotated[int, about("How often it was looked at: once a candle that was traded.", 2016)]
    fired: Annotated[int, about("How often it became true.", 15)]
    horizons: Annotated[list[HorizonLine], about("Returns by horizon.")]
    firings: Annotated[list[FiringLine], about("The newest 500 firings, oldest first.")]


@dataclass(frozen=True, slots=True)
class BacktestRoutes:
    """The route of backtests."""

    shop: SeriesShop

    @Operation(
        "GET",
        "/v1/token/{tokenAddress}/backtest",
        BacktestPage,
        unit="for up to 10,000 candles",
        refusals=OF_A_TOKEN,
        proofs=PAYERS,
        is_charged=True,
        takes_key=True,
        query=BacktestQuery,
        scope=Scope.TRADE_READ,
    )
    async def get_backtest(self, request: Request) -> Response:
        """A condition over the past of a token: each firing, and what followed.

        Returns the times at which a condition of screens became true for a Solana token, by candle,
        oldest first, and the returns after 5 minutes, 1 and 4 hours and a day, fees taken off,
        beside those of all times: the hit rate of chance. Nothing later than a candle decides
        whether it fires. Reads up to 10,000 candles, the newest, with a day behind `to`. Costs one
        credit or one payment, and nothing if no candle was looked at; errors cost nothing, and say
        at which character the condition is wrong.
        """
        caller = await self.shop.gate.admit(request)
        mint = mint_of(request.path_params["tokenAddress"])
        query = read_query(request, BacktestQuery)
        condition = _read_condition(query)
        if query.from_ > query.to:
            raise BadRequest(f"from: expected at most {query.to}, which is `to`; was {query.from_}")

        async def make() -> Made:
            tip, page = await self._page(mint, query, condition)
            return made_of(tip, page, is_empty=not page.looks)

        return await self.shop.sell(request, caller, Wanted(mint, "backtest", query), make)

    async def _page(
        self, mint: Mint, query: BacktestQuery, condition: Condition
    ) -> tuple[LogTip, BacktestPage]:
        base = Timeframe(query.tf)
        read: dict[Timeframe, tuple[KeptCandles, AskedCandles]] = {}
        until = min(query.to, (await self.shop.reader.tip()).time or 0)
        for timeframe in needed_timeframes(condition, base):
            asked = _asked_candles(query, condition, timeframe, until)
            kept = await self.shop.newest.read(mint, asked)
            if kept is None:
                raise not_tracked(mint)
            if not has_price(kept):
                raise InsufficientData("There is no swap of this token yet that sets a price.")
            read[timeframe] = (kept, asked)
        tip = min((kept.tip for kept, _ in read.values()), key=lambda tip: tip.time or 0)
        question = BacktestQuestion(
            condition,
            base,
            UnixS(query.from_),
            UnixS(query.to),
            tip.time or UnixS(0),
            query.fee_bps / BASIS_POINTS,
        )
        found = await asyncio.to_thread(_backtested, question, read)
        return tip, _page_of(mint, base, found)


def _read_condition(query: BacktestQuery) -> Condition:
    """Return the condition that is asked for.  Raises BadRequest."""
    try:
        condition = parse_condition(query.where)
        needed_timeframes(condition, Timeframe(query.tf))
    except (ConditionError, UntestableCondition) as flaw:
        raise BadRequest(f"where: {flaw}") from flaw
    return condition


def _asked_candles(
    query: BacktestQuery, condition: Condition, timeframe: Timeframe, last: int
) -> AskedCandles:
    """Return the candles of *timeframe* to read: a day after the *last* look is for returns."""
    width_s = WIDTH_S[timeframe]
    until = last + DAY_S
    count = max(0, until - query.from_) // width_s + rows_before(
        condition, timeframe, Timeframe(query.tf)
    )
    return AskedCandles(timeframe, UnixS(until), min(CANDLES_READ_MAX, count))


def _backtested(
    question: BacktestQuestion, read: dict[Timeframe, tuple[KeptCandles, AskedCandles]]
) -> Backtested:
    past: dict[Timeframe, PastCandles] = {}
    for timeframe, (kept, asked) in read.items():
        series = series_of(kept, asked)
        past[timeframe] = PastCandles(series, start_of(series, kept.waypoints))
    return backtest(question, past)


def _page_of(mint: Mint, base: Timeframe, found: Backtested) -> BacktestPage:
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

"""Backtests: when a condition became true in the past of a token, and the returns after that."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias, TypedDict

import msgspec
from typing_extensions import Unpack

from mintscope_client.calls.call import ApiCall
from mintscope_client.calls.known import expect_known
from mintscope_client.calls.requests import Moment, query_of, segment, text_of
from mintscope_client.endpoints.reports import WhyNot

TestedTimeframe: TypeAlias = Literal["m1", "m5", "m15", "m30", "h1", "h4", "d1"]
CANDLES_A_CREDIT: Final = 10_000  # the most candles that a backtest reads for each credit
# The most credits for a token of a backtest: one for each stored timeframe
CREDITS_A_TOKEN: Final = 4


class ReturnsOfFiring(msgspec.Struct, frozen=True):
    """Returns of a purchase when the condition became true, and a sale after a fixed time.

    The time is 5 minutes, 1 hour, 4 hours or a day. A return is None if that time has not passed
    yet, if it is shorter than a candle, or if the price impact cannot be estimated.
    """

    m5: float | None
    h1: float | None
    h4: float | None
    d1: float | None


class RuleFiring(msgspec.Struct, frozen=True):
    """One time at which the condition became true.

    t              the time, Unix seconds: the end of a candle
    price          the close of that candle, in USD
    best, worst    the changes from the close to the highest and the lowest price of the following
                   day, until now if that day has not ended, as fractions; None: no candle has
                   closed since
    """

    t: int
    price: float
    returns: ReturnsOfFiring
    best: float | None
    worst: float | None


class RuleHorizon(msgspec.Struct, frozen=True, rename="camel"):
    """Returns after one time span, such as a day.

    count, hit_rate, mean_return    when the condition became true: the number of returns, the share
                                    of those above 0, and the mean
    all_...                         the same after every evaluation, for comparison
    """

    after: str
    count: int
    hit_rate: float | None
    mean_return: float | None
    all_count: int
    all_hit_rate: float | None
    all_mean_return: float | None


class BacktestedToken(msgspec.Struct, frozen=True):
    """The results of a backtest for one of its tokens, or the reason why there are none."""

    token: str
    first: int | None
    last: int | None
    looks: int
    fired: int
    error: WhyNot | None = None


class TokenFiring(RuleFiring, frozen=True, kw_only=True):
    """One time at which the condition became true for the token *token*."""

    token: str


class TokensBacktest(msgspec.Struct, frozen=True):
    """The times at which a condition became true in the past of several tokens, and the returns.

    candles    the number of candles that were read; the price is one credit for each 10,000 or part
               of them, or nothing if the condition was never evaluated
    looks      the number of evaluations of the condition, of all tokens together
    fired      the number of times that the condition became true; *firings* has the newest 500 of
               them, oldest first
    horizons   the returns after each time span, of all tokens together
    """

    tf: str
    candles: int
    looks: int
    fired: int
    horizons: list[RuleHorizon]
    tokens: list[BacktestedToken]
    firings: list[TokenFiring]


class TokenBacktest(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """The times at which a condition became true in the past of a token, and the returns.

    from_, to   the times of the first and last evaluation, Unix seconds; None: no evaluation
    looks       the number of evaluations of the condition
    fired       the number of times that the condition became true; *firings* has the newest 500,
                oldest first
    """

    token: str
    tf: str
    from_: int | None
    to: int | None
    looks: int
    fired: int
    horizons: list[RuleHorizon]
    firings: list[RuleFiring]


class BacktestQuery(TypedDict, total=False):
    """The period and settings of a backtest.

    tf          the timeframe: the condition is evaluated at the end of each of its candles; "m5" by
                default
    from_, to   the times of the first and last evaluation, Unix seconds or a datetime with a time
                zone; by default the newest 10,000 candles
    fee_bps     the loss of each purchase and each sale by fees, in basis points; 30 by default
    trade_usd   the size of a trade in US dollars, whose price impact lowers the returns; 0 by
                default
    candles     "closed" (the default): fields of wider timeframes have the values of the newest
                closed candle; "all": those of the candle that was open then
    """

    tf: TestedTimeframe
    from_: Moment
    to: Moment
    fee_bps: int
    trade_usd: float
    candles: Literal["closed", "all"]


def backtest(mint: str, where: str, **asked: Unpack[BacktestQuery]) -> ApiCall[TokenBacktest]:
    """Return the call for a backtest: the times at which *where* became true for *mint*.

    It costs one credit, or nothing if there was no evaluation.

    where    a condition, in the syntax of GET /v1/screen: "crosses_below(rsi_m5, 30)"
    """
    expect_known(asked, BacktestQuery)
    names = {"fee_bps": "feeBps", "trade_usd": "tradeUsd"}
    return ApiCall(
        name="backtest",
        method="GET",
        path=f"/v1/token/{segment(mint)}/backtest",
        kind=TokenBacktest,
        query=query_of(
            {"where": where, **{names.get(key, key): value for key, value in asked.items()}}
        ),
        credits_max=1,
        credits_of=lambda found: 1 if found.looks else 0,
    )


def backtest_tokens(
    mints: Sequence[str], where: str, **asked: Unpack[BacktestQuery]
) -> ApiCall[TokensBacktest]:
    """Return the call for a backtest: the times at which *where* became true for up to 50 mints.

    It costs one credit for each 10,000 candles that are read, or part of them; nothing if there was
    no evaluation.

    where    a condition, in the syntax of GET /v1/screen: "crosses_below(rsi_m5, 30)"
    """
    expect_known(asked, BacktestQuery)
    names = {"fee_bps": "feeBps", "from_": "from", "trade_usd": "tradeUsd"}
    body: dict[str, object] = {"mints": list(mints), "where": where}
    for name, value in asked.items():
        body[names.get(name, name)] = int(text_of(value)) if isinstance(value, datetime) else value
    return ApiCall(
        name="backtest_tokens",
        method="POST",
        path="/v1/backtest",
        kind=TokensBacktest,
        body=msgspec.json.encode(body),
        credits_max=CREDITS_A_TOKEN * len(mints),
        credits_of=lambda found: -(-found.candles // CANDLES_A_CREDIT) if found.looks else 0,
    )

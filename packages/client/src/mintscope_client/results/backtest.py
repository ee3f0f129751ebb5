"""Firings of a condition in the past of a token, and the returns that followed."""

import msgspec

from mintscope_client.results.batch import WhyNot


class ReturnsOfFiring(msgspec.Struct, frozen=True):
    """Returns of a purchase sold after 5 minutes, 1 or 4 hours, or a day; None if not over."""

    m5: float | None
    h1: float | None
    h4: float | None
    d1: float | None


class RuleFiring(msgspec.Struct, frozen=True):
    """One time at which the condition became true: the end of a candle, and its close in USD.

    best, worst    to the highest and lowest price within a day so far, as fractions
    """

    t: int
    price: float
    returns: ReturnsOfFiring
    best: float | None
    worst: float | None


class RuleHorizon(msgspec.Struct, frozen=True, rename="camel"):
    """Returns after one horizon: of the firings, and of all times as the chance baseline.

    hit_rate    the part above 0
    """

    after: str
    count: int
    hit_rate: float | None
    mean_return: float | None
    all_count: int
    all_hit_rate: float | None
    all_mean_return: float | None


class BacktestedToken(msgspec.Struct, frozen=True):
    """One token of a backtest of several: its results, or the reason why there are none."""

    token: str
    first: int | None
    last: int | None
    looks: int
    fired: int
    error: WhyNot | None = None


class TokenFiring(RuleFiring, frozen=True, kw_only=True):
    """A firing and its token."""

    token: str


class TokensBacktest(msgspec.Struct, frozen=True):
    """The firings of a condition in the past of several tokens, and their returns together.

    candles     that were read: a credit for each 10,000, if there was a look
    looks       candles at whose end the condition was evaluated, of all tokens
    fired       how often it became true; *firings* are the newest 500, oldest first
    """

    tf: str
    candles: int
    looks: int
    fired: int
    horizons: list[RuleHorizon]
    tokens: list[BacktestedToken]
    firings: list[TokenFiring]


class TokenBacktest(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """The firings of a condition; times are Unix seconds.

    from_, to   the first and last look; None: there was none
    looks       candles at whose end the condition was evaluated
    fired       how often it became true; *firings* are the newest 500, oldest first
    """

    token: str
    tf: str
    from_: int | None
    to: int | None
    looks: int
    fired: int
    horizons: list[RuleHorizon]
    firings: list[RuleFiring]

"""Tests a condition on the past candles of one token: when it became true, and what followed.

A condition is evaluated when a candle has closed.  It fires if it is true, and was not true at the
end of the candle before.  A field of a wider timeframe has the value of the newest candle that had
closed by then.  With open candles, it has the value of the candle that was open, computed from
those narrower candles in it that had closed.  A screen showed this value at that time, so no firing
depends on anything later.

A return compares the close of the evaluated candle with the newest close a horizon later, less the
fees of a purchase and a sale: (1 + change) * (1 - fee) ** 2 - 1.  It is unknown until the horizon
has passed.

If a trade has a size, the return is also lower by the price impact: size / depth each way.  The
depth at the end of the candle is estimated from the trades of DEPTH_CANDLES candles: in a pool of D
dollars on each side, a net purchase of v multiplies the price by exp(2 v / D), so D is twice the
sum of the net purchases, divided by the sum of the changes of the logarithm of the price.  Both
sums are of absolute values, by candle.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from mintscope.kit.primitives import MICRO_USD, UnixS
from mintscope.kit.time import DAY_S, HOUR_S, MINUTE_S
from mintscope.market.engine.given import Bools, Candles, Floats, Ints
from mintscope.market.engine.kernels import AGES, SWING
from mintscope.market.screening.grammar import (
    ALL_FIELDS,
    FIBONACCI,
    OF_NEWEST,
    BeforeOf,
    Comparison,
    Condition,
    FieldOf,
    Junction,
    Negation,
    Value,
    before,
    read_before,
    values_in,
)
from mintscope.market.screening.open_candles import OpenCandles
from mintscope.market.screening.screen import known, rows_where
from mintscope.market.series.series import (
    ATR_CANDLES,
    AVERAGES,
    BOLLINGER_CANDLES,
    FORGOTTEN,
    FORGOTTEN_AFTER,
    Series,
    Start,
    indicators_of,
    lead,
)
from mintscope.market.timeframe import BY_NAME, FRAME_S, FRAMES, AnyFrame, AskedFrame

HORIZONS: Final = {"m5": 5 * MINUTE_S, "h1": HOUR_S, "h4": 4 * HOUR_S, "d1": DAY_S}
SPAN_S: Final = {"m5": 5 * MINUTE_S, "h1": HOUR_S, "d1": DAY_S}
OF_SPANS: Final = ("change", "volume", "swaps", "pressure")
# By field, the indicator of a series that contains it, and the column of the indicator.
COLUMNS: Final = {
    **{name: (name, None) for name in AVERAGES[:5]},
    "macd": ("macd", 0),
    "macd_signal": ("macd", 1),
    "macd_histogram": ("macd", 2),
    "atr": ("atr", None),
    "bollinger_upper": ("bollinger", 0),
    "bollinger_middle": ("bollinger", 1),
    "bollinger_lower": ("bollinger", 2),
    "swing_high": ("fibonacci", 0),
    "swing_low": ("fibonacci", 1),
    **{name: ("fibonacci", place) for place, name in enumerate(FIBONACCI, 2)},
}
FIRINGS_MAX: Final = 500
DEPTH_CANDLES: Final = 50  # candles; more than these are read before the first evaluation
CANDLES_READ_MAX: Final = 10_000
AFTER_ALL: Final = 1 << 62  # Unix seconds, later than any time
# The number of candles that an indicator needs before it has a value, if older candles were dropped
# and no state is stored.
NEEDED: Final = FORGOTTEN_AFTER | {
    "atr": FORGOTTEN + ATR_CANDLES + 1,
    "bollinger": BOLLINGER_CANDLES,
    "fibonacci": SWING,
}


class UntestableCondition(ValueError):
    """A condition cannot be tested on past candles; the message names the field at fault.

    It is not stored for the past, or its timeframe is narrower than the candles.
    """


class PastCandles(NamedTuple):
    """The candles of one timeframe on which a condition is tested.

    start   the candle from which averages continue, with their accumulators; None: unknown.  For an
            `AskedFrame`, averages begin with the first stored candle: if there were older candles,
            a value is unknown until it no longer depends on them
    """

    series: Series
    start: Start | None


class BacktestQuestion(NamedTuple):
    """A condition and the period over which it is tested.

    timeframe      the condition is evaluated at the end of each candle of this timeframe
    since, until   the earliest and the latest time at which the condition is evaluated
    now            candles that end after this time are still open
    fee            the fraction of each purchase, and of each sale, that is lost to fees
    trade_usd      the size of each trade in US dollars, whose price impact lowers returns; 0: no
                   impact
    has_open       whether fields of wider timeframes include the candle that is open when the
                   condition is evaluated
    """

    condition: Condition
    timeframe: AnyFrame
    since: UnixS
    until: UnixS
    now: UnixS
    fee: float
    trade_usd: float = 0.0
    has_open: bool = False


class Firing(NamedTuple):
    """One time at which the condition became true, at the end of a candle, and what followed.

    time          the end of the candle
    price         its close
    returns       by horizon, the return of a purchase at this price, less fees and price impact;
                  None if unknown, for example because the horizon has not passed yet
    best, worst   the greatest and the least change of the price within the next day, by the highs
                  and lows of the candles so far; None: there is no candle yet
    """

    time: UnixS
    price: float
    returns: Mapping[str, float | None]
    best: float | None
    worst: float | None


class ReturnsAfter(NamedTuple):
    """A summary of the returns after one horizon, such as an hour, over all firings.

    known      the number of known returns
    hit_rate   the share of the known returns that is above 0; None if none is known
    mean       the mean of the known returns; None if none is known
    """

    known: int
    hit_rate: float | None
    mean: float | None


class Backtested(NamedTuple):
    """The result of a backtest: when the condition became true, and the returns that followed.

    first, last   the time of the first and the last evaluation; None: there was none
    looks         the number of evaluations
    fired         how often the condition became true
    firings       the newest FIRINGS_MAX of these, oldest first
    found         the summary of the returns of all firings, by horizon
    baseline      the same summary of all evaluations, to compare *found* with
    """

    first: UnixS | None
    last: UnixS | None
    looks: int
    fired: int
    firings: Sequence[Firing]
    found: Mapping[str, ReturnsAfter]
    baseline: Mapping[str, ReturnsAfter]


def needed_timeframes(condition: Condition, base: AnyFrame) -> list[AnyFrame]:
    """Return the timeframes whose candles are needed to evaluate *condition*, *base* first.

    Raises UntestableCondition for a field that is not stored for the past, or whose candles or span
    are narrower than *base*.
    """
    wider = FRAMES[FRAMES.index(base) :]
    found = [base]
    for value in values_in(condition):
        name = value.name
        timeframe = _frame_of(value)
        span_s = _span_s(name)
        if timeframe is not None and timeframe not in wider:
            raise UntestableCondition(f"{name}: tf {base} allows fields of {', '.join(wider)}")
        if span_s is not None and span_s < FRAME_S[base]:
            raise UntestableCondition(f"{name}: expected a tf no wider than its span; was {base}")
        if timeframe is None and span_s is None and name not in {"price", "price_sol"}:
            raise UntestableCondition(f"{name} has no stored past, so it cannot be tested")
        if timeframe is not None and timeframe not in found:
            found.append(timeframe)
    return found


def rows_before(
    condition: Condition, timeframe: AnyFrame, base: AnyFrame, *, has_open: bool = False
) -> int:
    """Return the number of candles of *timeframe* that the first evaluation needs before it.

    base       the timeframe of the candles at whose ends *condition* is evaluated
    has_open   whether fields of wider timeframes include the candle that is open at the evaluation
    """
    spans = [_span_s(each.name) or 0 for each in values_in(condition)]
    if has_open:  # the narrower candles of the wide one that is open at the first evaluation
        spans += [FRAME_S[each] for each in needed_timeframes(condition, base)]
    of_spans = max(spans, default=0) // FRAME_S[base] if timeframe is base else 0
    names = _indicators_in(condition, timeframe)
    before = lead(names, FRAME_S[timeframe])
    if isinstance(timeframe, AskedFrame):
        before = max([before, *(FORGOTTEN_AFTER.get(name, 0) for name in names)])
    # One more candle shows whether the condition was true before; AGES more are for crossings.
    return max(before, of_spans) + 1 + AGES


def backtest(asked: BacktestQuestion, past: Mapping[AnyFrame, PastCandles]) -> Backtested:
    """Evaluate the condition of *asked* on *past*, which has all `needed_timeframes`.

    This takes some milliseconds for 10,000 candles; it may run in any thread.
    """
    rows = _Rows(asked, past)
    count = len(rows.ends)
    is_true = rows_where(asked.condition, rows.column, count)
    # Nothing was true before a token's first candle.  If older candles were dropped, it is unknown
    # whether the condition was true in them, so the first row does not fire.
    was_true = np.concatenate([[not rows.is_whole], is_true[:-1]]) if count else is_true
    since = max([asked.since, *(_known_from(asked, *each) for each in past.items())])
    is_looked_at = (rows.ends >= since) & (rows.ends <= asked.until)
    if not rows.is_whole:  # the condition may have been true in candles that were dropped
        base = asked.timeframe
        lead_in = rows_before(asked.condition, base, base, has_open=asked.has_open)
        is_looked_at[:lead_in] = False
    # A condition that can never be true would look as if it was evaluated and never fired.
    if not _may_be(asked.condition, rows.unknown(is_looked_at)):
        is_looked_at[:] = False
    fired = np.flatnonzero(is_true & ~was_true & is_looked_at)
    looks = np.flatnonzero(is_looked_at)
    returns = {name: rows.returns(span_s, asked.fee) for name, span_s in HORIZONS.items()}
    firings = [rows.firing(int(row), returns) for row in fired[-FIRINGS_MAX:]]
    return Backtested(
        UnixS(int(rows.ends[looks[0]])) if len(looks) else None,
        UnixS(int(rows.ends[looks[-1]])) if len(looks) else None,
        len(looks),
        len(fired),
        firings,
        {name: _summed(of[fired]) for name, of in returns.items()},
        {name: _summed(of[looks]) for name, of in returns.items()},
    )


def _known_from(asked: BacktestQuestion, timeframe: AnyFrame, past: PastCandles) -> int:
    """Return the time from which the values of *timeframe* in the condition are known.

    It is 0 unless *timeframe* is an `AskedFrame` whose oldest candles were deleted: then it is the
    time from which indicators do not depend on them, or AFTER_ALL if there is none.  Before it, a
    condition may become true only because a value becomes known.  Indicators that `_never_known`
    returns are ignored.
    """
    candles = past.series.candles
    if not isinstance(timeframe, AskedFrame) or past.series.closed == 0:
        return 0
    names = _indicators_in(asked.condition, timeframe) - _never_known(asked, timeframe, past)
    before = max((NEEDED.get(name, 0) for name in names), default=0) + 1 + AGES
    return candles[before].bucket + FRAME_S[timeframe] if before < len(candles) else AFTER_ALL


def _never_known(asked: BacktestQuestion, timeframe: AnyFrame, past: PastCandles) -> set[str]:
    """Return the indicators of *timeframe* that are unknown at all evaluations but the newest.

    Too few candles are stored for them.  Other parts of a condition are then tested without them.
    """
    if not isinstance(timeframe, AskedFrame) or past.series.closed == 0:
        return set()
    width_s = FRAME_S[timeframe]
    count = sum(each.bucket + width_s <= asked.now for each in past.series.candles)
    return {name for name, needed in NEEDED.items() if needed + 1 + AGES >= count}


def _may_be(part: Condition, unknown: Collection[Value], *, is_true: bool = True) -> bool:
    """Return whether *part* of a condition can be true, although the values *unknown* are unknown.

    is_true   if False, return whether *part* can be false
    """
    match part:
        case Comparison(left=left, right=right):
            return not any(each in unknown for each in values_in(left) + values_in(right))
        case Negation(inner):
            return _may_be(inner, unknown, is_true=not is_true)
        case Junction(word, parts):
            of_parts = [_may_be(each, unknown, is_true=is_true) for each in parts]
            return all(of_parts) if (word == "and") is is_true else any(of_parts)


class _Rows:
    """The closed candles at whose ends a condition is evaluated, and the values of fields there.

    Each candle has a row.
    """

    def __init__(self, asked: BacktestQuestion, past: Mapping[AnyFrame, PastCandles]) -> None:
        self._asked = asked
        self._past = past
        series = past[asked.timeframe].series
        width_s = FRAME_S[asked.timeframe]
        candles = [each for each in series.candles if each.bucket + width_s <= asked.now]
        self.is_whole = series.closed == 0
        self.ends: Ints = np.array([each.bucket for each in candles], np.int64) + width_s
        self._highs = np.array([each.high for each in candles], float)
        self._lows = np.array([each.low for each in candles], float)
        self._closes = np.array([each.close for each in candles], float)
        self._candles = candles
        self._values: dict[AnyFrame, dict[str, Floats]] = {}
        self._opened: dict[AnyFrame, OpenCandles] = {}
        self._columns: dict[str, Floats] = {}
        self._never_known = {each: _never_known(asked, each, of) for each, of in past.items()}

    def column(self, name: str) -> Floats:
        """Return, by row, the values of *name*: a field, or a result of `grammar.before`."""
        if name not in self._columns:
            self._columns[name] = self._column(name)
        return self._columns[name]

    def unknown(self, is_looked_at: Bools) -> set[Value]:
        """Return those values in the condition that are unknown at every evaluation.

        They are values of an `AskedFrame` of which candles were dropped.

        is_looked_at   for each narrow candle, whether the condition is evaluated at its end
        """
        found: set[Value] = set()
        for each in values_in(self._asked.condition):
            timeframe = _frame_of(each)
            if timeframe is None or self._is_counted(timeframe):
                continue
            name = before(*each) if isinstance(each, BeforeOf) else each.name
            if np.isnan(self.column(name)[is_looked_at]).all():
                found.add(each)
        return found

    def _column(self, name: str) -> Floats:
        earlier = read_before(name)
        if earlier is not None:
            return self._of_timeframe(*earlier)
        if name == "price":
            return self._closes
        if name == "price_sol":
            sol = [np.nan if each.close_sol is None else each.close_sol for each in self._candles]
            return np.array(sol, float)
        timeframe = _timeframe_of(name)
        return self._of_span(name) if timeframe is None else self._of_timeframe(name, timeframe, 0)

    def returns(self, span_s: int, fee: float) -> Floats:
        """Return, by row, the return of a purchase that is sold after *span_s* seconds.

        NaN: unknown.

        fee   the fraction of the purchase, and of the sale, that is lost to fees
        """
        targets = self.ends + span_s
        at = np.searchsorted(self.ends, targets, side="right") - 1
        closes = self._closes[at]
        found: Floats = closes / self._closes * (1.0 - fee) ** 2 - 1.0
        if self._asked.trade_usd:
            worse = 1.0 + self._asked.trade_usd / self._depths
            found = (found + 1.0) / (worse * worse[at]) - 1.0
        # A horizon shorter than a candle has no close of its own.
        is_known = (targets <= self._asked.now) & (span_s >= FRAME_S[self._asked.timeframe])
        return np.where(is_known, found, np.nan)

    @cached_property
    def _depths(self) -> Floats:
        """The estimated US dollars on each side of the token's pools by row; NaN: no estimate."""
        flows = np.array([abs(each.buy_volume - each.sell_volume) for each in self._candles], float)
        opens = np.array([each.open for each in self._candles], float)
        is_sided = np.array([each.imported_volume is None for each in self._candles], bool)
        moves = np.abs(np.log(self._closes / opens))
        flow = _newest_sums(np.where(is_sided, flows / MICRO_USD, 0.0))
        move = _newest_sums(np.where(is_sided, moves, 0.0))
        is_known = (flow > 0) & (move > 0)
        found: Floats = np.full(len(flow), np.nan)
        np.divide(2.0 * flow, move, out=found, where=is_known)
        return found

    def firing(self, row: int, returns: Mapping[str, Floats]) -> Firing:
        price = float(self._closes[row])
        end = int(np.searchsorted(self.ends, self.ends[row] + DAY_S, side="right"))
        best = float(self._highs[row + 1 : end].max()) / price - 1 if end > row + 1 else None
        worst = float(self._lows[row + 1 : end].min()) / price - 1 if end > row + 1 else None
        after = {name: known(float(of[row])) for name, of in returns.items()}
        return Firing(UnixS(int(self.ends[row])), price, after, best, worst)

    def _of_timeframe(self, name: str, timeframe: AnyFrame, age: int) -> Floats:
        """Return, by row, the field *name* of *timeframe* at an earlier candle.

        age   how many candles before the newest one it is
        """
        series, start = self._past[timeframe]
        width_s = FRAME_S[timeframe]
        kind = name.removesuffix(f"_{timeframe}")
        if COLUMNS.get(kind, ("", None))[0] in self._never_known[timeframe]:
            return np.full(len(self.ends), np.nan)
        if self._asked.has_open and timeframe is not self._asked.timeframe:
            opened = self._open(timeframe)
            if age == 0:
                return self._at_open(opened, timeframe, kind, start)
            at = opened.closed - age
        else:
            ends = np.array([each.bucket for each in series.candles], np.int64) + width_s
            # A candle that ends at the time of the evaluation has closed.
            at = np.searchsorted(ends, self.ends, side="right") - 1 - age
        if kind == "candles":
            is_counted = (at >= 0) & self._is_counted(timeframe) | (series.closed == 0)
            return np.where(is_counted, at + 1.0 + series.closed, np.nan)
        if kind == "price":
            first = 0
            values = np.array([each.close for each in series.candles], float)
        elif start is None:
            return np.full(len(self.ends), np.nan)
        else:
            first = start.first
            values = self._indicator(series, start, timeframe, kind)
        if not len(values):
            return np.full(len(self.ends), np.nan)
        # A negative index would count from the end; such rows become NaN.
        place = np.maximum(0, at - first)
        return np.where(at >= first, values[place], np.nan)

    def _is_counted(self, timeframe: AnyFrame) -> bool:
        """Return whether the number of older candles of *timeframe* that were not read is known."""
        return not isinstance(timeframe, AskedFrame) or self._past[timeframe].series.closed == 0

    def _open(self, timeframe: AnyFrame) -> OpenCandles:
        if timeframe not in self._opened:
            series = self._past[timeframe].series
            begins = self.ends - FRAME_S[self._asked.timeframe]
            prices = Candles(self._highs, self._lows, self._closes)
            self._opened[timeframe] = OpenCandles.of(
                series, FRAME_S[timeframe], begins, prices, is_whole=self.is_whole
            )
        return self._opened[timeframe]

    def _at_open(
        self, opened: OpenCandles, timeframe: AnyFrame, kind: str, start: Start | None
    ) -> Floats:
        is_counted = self._is_counted(timeframe)
        if kind == "candles":
            return opened.count() if is_counted else np.full(len(self.ends), np.nan)
        name, column = COLUMNS[kind]
        found = opened.averages(start) if name in AVERAGES else getattr(opened, name)()
        if name in AVERAGES:
            if not is_counted:
                # The open candle is one of the candles that an average needs.
                found[opened.closed < FORGOTTEN_AFTER[name] - 1] = np.nan
            column = list(AVERAGES).index(name) + (column or 0)
        values: Floats = found if column is None else found[:, column]
        return self._closes / values - 1.0 if kind in FIBONACCI else values

    def _indicator(self, series: Series, start: Start, timeframe: AnyFrame, kind: str) -> Floats:
        name, column = COLUMNS[kind]
        of = self._values.setdefault(timeframe, {})
        if name not in of:
            names = AVERAGES if name in AVERAGES else (name,)
            of |= indicators_of(series, start, FRAME_S[timeframe], names)
            for each in () if self._is_counted(timeframe) else FORGOTTEN_AFTER.keys() & of.keys():
                of[each][: FORGOTTEN_AFTER[each] - 1] = np.nan
        values = of[name] if column is None else of[name][:, column]
        if kind in FIBONACCI:
            closes = np.array([each.close for each in series.candles[start.first :]], float)
            return closes / values - 1.0
        return values

    def _of_span(self, name: str) -> Floats:
        """Return, for each candle, the value of field *name* over the span that ends with it."""
        kind = name.partition("_")[0]
        starts = self.ends - (_span_s(name) or 0)
        if kind == "change":
            at = np.searchsorted(self.ends, starts, side="right") - 1
            first = np.nan
            if name == "change_d1" and self.is_whole and self._candles:
                first = self._candles[0].open  # as a screen does for a token younger than a day
            earlier = np.where(at >= 0, self._closes[np.maximum(0, at)], first)
            return self._closes / earlier - 1.0
        traded, bought, swaps = self._sums(starts)
        if kind == "swaps":
            found = swaps
        elif kind == "volume":
            found = traded / MICRO_USD
        else:
            found = np.divide(bought, traded, out=np.full(len(traded), np.nan), where=traded > 0)
        if self.is_whole or not len(self.ends):
            return found
        first = self.ends[0] - FRAME_S[self._asked.timeframe]
        return np.where(starts >= first, found, np.nan)

    def _sums(self, starts: Ints) -> tuple[Floats, Floats, Floats]:
        """Return volume, bought volume and swaps of each row, from *starts* to its candle's end."""
        times, sums = self._running
        newest = np.searchsorted(times, self.ends, side="right")
        oldest = np.searchsorted(times, starts, side="right")
        traded, bought, swaps = (sums[newest] - sums[oldest]).T
        return traded, bought, swaps

    @cached_property
    def _running(self) -> tuple[Floats, Floats]:
        """The ends of all spans with trades, in order, with the sums of the trades up to each."""
        width_s = FRAME_S[self._asked.timeframe]
        rows = [
            (
                each.bucket + width_s,
                each.buy_volume + each.sell_volume + (each.imported_volume or 0),
                each.buy_volume,
                each.count,
            )
            for each in self._candles
        ]
        unpriced = self._past[self._asked.timeframe].series.unpriced
        rows += [(at + width_s, buy + sell, buy, 0) for at, buy, sell, _ in unpriced]
        table = np.array(sorted(rows), float).reshape(-1, 4)
        sums = np.concatenate([np.zeros((1, 3)), np.cumsum(table[:, 1:], axis=0)])
        return table[:, 0], sums


def _newest_sums(values: Floats) -> Floats:
    """Return the sum of the newest DEPTH_CANDLES values at each of *values*, its own included."""
    return np.convolve(values, np.ones(DEPTH_CANDLES))[: len(values)] if len(values) else values


def _indicators_in(condition: Condition, timeframe: AnyFrame) -> set[str]:
    """Return the names of the indicators of *timeframe* that *condition* uses."""
    return {
        _indicator_of(each.name) for each in values_in(condition) if _frame_of(each) is timeframe
    }


def _frame_of(value: FieldOf | BeforeOf) -> AnyFrame | None:
    """Return the timeframe of the candles from which *value* is computed.

    None: the value does not depend on a timeframe.
    """
    return value.timeframe if isinstance(value, BeforeOf) else _timeframe_of(value.name)


def _timeframe_of(name: str) -> AnyFrame | None:
    """Return the timeframe of the candles from which the field *name* is computed.

    None: the field does not depend on a timeframe.
    """
    known = ALL_FIELDS[name].timeframe
    kind, _, timeframe = name.rpartition("_")
    return BY_NAME[timeframe] if kind in dict(OF_NEWEST) else known


def _indicator_of(name: str) -> str:
    """Return the indicator to which the field *name* of a condition belongs; "" if none."""
    return COLUMNS.get(name.rpartition("_")[0], ("", None))[0]


def _span_s(name: str) -> int | None:
    """Return the length in seconds of the span that the field *name* covers; None without one."""
    kind, _, span = name.partition("_")
    return SPAN_S[span] if kind in OF_SPANS else None


def pooled(parts: Sequence[ReturnsAfter]) -> ReturnsAfter:
    """Return one summary of the returns that are summarized in *parts*."""
    count = sum(each.known for each in parts)
    if not count:
        return ReturnsAfter(0, None, None)
    hits = sum(each.known * (each.hit_rate or 0.0) for each in parts)
    total = sum(each.known * (each.mean or 0.0) for each in parts)
    return ReturnsAfter(count, hits / count, total / count)


def _summed(returns: Floats) -> ReturnsAfter:
    found = returns[~np.isnan(returns)]
    if not len(found):
        return ReturnsAfter(0, None, None)
    return ReturnsAfter(len(found), float((found > 0).mean()), float(found.mean()))

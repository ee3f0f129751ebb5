"""Conditions of alerts over the values of reports, tracked along the swap log.

`Tracks` computes the reports of chosen mints after any event of the swap log.  A report depends
only on the log up to that event.  After a restart, each mint starts from its stored state (its
base), if there is one, and the events after the base are applied again.

`look` evaluates a rule over one value: whether the value crosses a level, or moves by a percentage.
A rule with a level fires only when the value changes sides.  The first evaluation never fires: it
records the side, or the value.  Garbage collection skips rules and states, which have no cycles.

FIELDS are the values of a report that a rule may evaluate, by their names in JSON.
"""

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Annotated, Any, Final, NamedTuple, NewType, get_args, get_origin

import msgspec

from mintscope.kit.errors import InsufficientData
from mintscope.kit.primitives import Mint, Slot, UnixS
from mintscope.kit.time import MINUTE_S
from mintscope.market.engine.engine import Engine, add_to_frames, as_trades, frames_of
from mintscope.market.engine.frames import Frames
from mintscope.market.log import (
    Appended,
    Event,
    LoadedMint,
    LogTrimmed,
    PricedSwap,
    Retracted,
    Untracked,
)
from mintscope.market.report import NO_FRAMES, TokenReport, token_report
from mintscope.market.screening import grammar
from mintscope.market.standings import basis_of
from mintscope.market.timeframe import FRAMES, AskedFrame


@dataclass(slots=True)
class _Since:
    """The swaps of a mint in one slot; *standing*: its pools after the slot, None if unchanged."""

    slot: Slot
    time: UnixS
    swaps: list[PricedSwap]
    standing: bytes | None


@dataclass(slots=True)
class _Track:
    """A tracked mint.

    row       the row of the mint in the engine
    base      a loaded state of the mint; the swaps in *since* lead from it to the current state
    since     the swaps after the base, by slot, and the pools after each of these slots
    is_kept   whether the base is stored
    frames    the candles of each loaded `AskedFrame`; None: none was loaded
    """

    row: int
    base: LoadedMint
    since: list[_Since] = field(default_factory=list)
    is_kept: bool = False
    frames: Frames | None = None

    @property
    def standing(self) -> bytes | None:
        """The pools of the mint after its newest slot, packed; None if no pools are logged."""
        newer = (each.standing for each in reversed(self.since) if each.standing is not None)
        kept = self.base.standings
        return next(newer, kept[-1][1] if kept else None)


class Tracks:
    """Computes reports of at most *capacity* mints, as of the last event that was applied.

    seq    the position of that event in the swap log
    slot   the newest slot; None: it is not known yet
    time   the effective time of *slot*; None: it is not known yet
    """

    def __init__(self, capacity: int) -> None:
        self._engine = Engine(capacity)
        self._capacity = capacity
        self._tracks: dict[Mint, _Track] = {}
        self._ahead: dict[Mint, LoadedMint] = {}
        self.begin(0, None, None)

    def begin(self, seq: int, slot: Slot | None, time: UnixS | None) -> None:
        """Drop all mints, and continue after the event at position *seq*."""
        self._tracks.clear()
        self._ahead.clear()
        self._free = list(range(self._capacity))
        self.seq = seq
        self.slot = slot
        self.time = time

    def __contains__(self, mint: Mint) -> bool:
        return mint in self._tracks

    def has(self, mint: Mint, timeframes: Collection[str] = ()) -> bool:
        """Return whether *mint* was loaded with *timeframes*, even if it is not tracked yet."""
        track = self._tracks.get(mint)
        base = self._ahead.get(mint, None if track is None else track.base)
        if base is None or not timeframes:
            return base is not None
        return base.frames is not None and Frames(base.frames).has(timeframes)

    def take(self, loaded: LoadedMint) -> list[Mint] | None:
        """Track a mint from the state *loaded* on; return the mints that are newly tracked.

        If the mint is already tracked, *loaded* replaces its starting state.  Return None if
        *loaded* is older than the last event applied.
        """
        if loaded.seq < self.seq:
            return None
        self._ahead[loaded.mint] = loaded
        return list(self.reach())

    def drop(self, mint: Mint) -> None:
        """Stop tracking *mint*."""
        self._ahead.pop(mint, None)
        track = self._tracks.pop(mint, None)
        if track is not None:
            self._free.append(track.row)

    def apply(self, event: Event) -> list[Mint]:
        """Apply the next *event*; return the tracked mints that traded.

        Call `reach` afterwards, to track the mints that have waited for this event.
        Raises LogTrimmed if the position of *event* is not the one after `seq`.
        """
        if event.seq != self.seq + 1:
            raise LogTrimmed(f"expected event {self.seq + 1}, was {event.seq}")
        traded: list[Mint] = []
        match event:
            case Appended(header=header):
                self.slot = header.slot
                self.time = header.time
                traded = self._append(event)
            case Retracted(slot=slot, mints=mints):
                for mint in mints:
                    self._retract(mint, slot)
            case Untracked(mint=mint):
                self.drop(mint)
            case _:
                pass
        self.seq = event.seq
        return traded

    def ends_minute(self, event: Event) -> bool:
        """Return whether *event*, the next one, is the first slot of a later minute.

        If so, reports are from now on computed for the time of *event*: closed candles include the
        minute that has ended, and nothing of the new minute.
        """
        if not isinstance(event, Appended) or self.time is None:
            return False
        header = event.header
        if header.time // MINUTE_S <= self.time // MINUTE_S:
            return False
        self.slot = header.slot
        self.time = header.time
        return True

    def report(self, mint: Mint, *, is_closed: bool = False) -> TokenReport | None:
        """Return the report of *mint*, which is tracked.

        Return None if `time` is not known yet, or if there is too little data of *mint*.

        is_closed   whether to leave the open candles out of the indicators
        """
        if self.time is None:
            return None
        try:
            track = self._tracks[mint]
            values = self._engine.snapshot(track.row, self.time, leaves_out_open=is_closed)
            read = NO_FRAMES
            if track.frames is not None:
                asked = [each for each in AskedFrame if track.frames.has([each])]
                read = track.frames.read(asked, self.time, leaves_out_open=is_closed)
            basis = basis_of(track.standing)
            return token_report(mint, values, self.time, basis=basis, frames=read)
        except InsufficientData:
            return None

    def traded(self) -> dict[Mint, int]:
        """Return the mints that traded since their state was loaded, with its log position."""
        return {mint: track.base.seq for mint, track in self._tracks.items() if track.since}

    def new_bases(self) -> list[LoadedMint]:
        """Return the starting states of mints that were not stored yet."""
        return [track.base for track in self._tracks.values() if not track.is_kept]

    def idle(self) -> list[Mint]:
        """Return the mints that have not traded since the state that was loaded for them."""
        return [mint for mint, track in self._tracks.items() if not track.since]

    def keep(self, bases: Iterable[LoadedMint], idle: Iterable[Mint], seq: int) -> None:
        """Record that *bases* are stored, and that those of the mints *idle* are valid at *seq*."""
        for base in bases:
            track = self._tracks.get(base.mint)
            if track is not None and track.base is base:
                track.is_kept = True
        for mint in idle:
            track = self._tracks.get(mint)
            if track is not None and not track.since:
                track.base = msgspec.structs.replace(track.base, seq=seq)

    def reach(self) -> Iterator[Mint]:
        """Track loaded mints whose log position is reached; yield those that are newly tracked."""
        for mint, loaded in list(self._ahead.items()):
            if loaded.seq > self.seq:
                continue
            del self._ahead[mint]
            track = self._tracks.get(mint)
            if track is not None:
                track.base = loaded  # now of the position `seq`: the engine already has this state
                track.since = []
                track.is_kept = False
                track.frames = frames_of(loaded)
            elif self._free:
                track = _Track(self._free.pop(), loaded, frames=frames_of(loaded))
                self._tracks[mint] = track
                self._engine.load(track.row, loaded)
                yield mint

    def _append(self, event: Appended) -> list[Mint]:
        found: dict[Mint, _Since] = {}
        for swap in event.swaps:
            if swap.mint in self._tracks:
                header = event.header
                since = found.get(swap.mint)
                if since is None:
                    standing = event.standings.get(swap.mint)
                    since = found[swap.mint] = _Since(header.slot, header.time, [], standing)
                since.swaps.append(swap)
        for mint, since in found.items():
            self._tracks[mint].since.append(since)
        self._trade([(self._tracks[mint], since) for mint, since in found.items()])
        return list(found)

    def _trade(self, made: list[tuple[_Track, _Since]]) -> None:
        trades = [(track, since.time, swap) for track, since in made for swap in since.swaps]
        if trades:
            self._engine.apply(as_trades([(track.row, time, swap) for track, time, swap in trades]))
        for track, time, swap in trades:
            add_to_frames(track.frames, time, swap)

    def _retract(self, mint: Mint, slot: Slot) -> None:
        """Rebuild *mint* without the swaps of *slot*."""
        track = self._tracks.get(mint)
        if track is None:
            return
        track.since = [since for since in track.since if since.slot != slot]
        track.base = _without(track.base, slot)
        track.is_kept = False
        self._engine.load(track.row, track.base)
        track.frames = frames_of(track.base)
        self._trade([(track, since) for since in track.since])


def _without(loaded: LoadedMint, slot: Slot) -> LoadedMint:
    """Return *loaded* without the swaps and the pools of *slot*, which is not final."""
    tail = [kept for kept in loaded.tail if kept.folded or kept.slot != slot]
    standings = [kept for kept in loaded.standings if kept[0] != slot]
    return msgspec.structs.replace(loaded, tail=tail, standings=standings)


def pack(loaded: LoadedMint) -> bytes:
    """Return *loaded* encoded and compressed; `unpack` decodes the bytes."""
    return zlib.compress(msgspec.msgpack.encode(loaded), level=1)


def unpack(packed: bytes) -> LoadedMint:
    """Return the mint that `pack` encoded as *packed*.

    Raises ValueError if *packed* does not have the form of this version.
    """
    try:
        return msgspec.msgpack.decode(zlib.decompress(packed), type=LoadedMint)
    except (zlib.error, msgspec.MsgspecError) as cause:
        raise ValueError("expected a mint as this version packs it") from cause


MARKS_MAX: Final = 60  # the number of parts of a window; each Mark is about one part


class SignalKind(StrEnum):
    """The kinds of conditions of an alert."""

    ABOVE = "above"  # the value rises above the level
    BELOW = "below"  # the value falls below the level
    CROSSES = "crosses"  # the value rises above or falls below the level
    CROSSES_FIELD = "crosses_field"  # the value crosses another value
    CHANGES_BY = "changes_by"  # the value has moved by a percentage within the window


class RuleSide(Enum):
    """The side of the level on which the value is."""

    UNDER = -1
    OVER = 1


class Direction(StrEnum):
    """The direction in which a value moved."""

    UP = "up"
    DOWN = "down"


class Rule(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The condition of an alert.

    level     the level of above, below and crosses, in the unit of the value
    margin    how far past the level the value must go back before the rule can fire again, in the
              unit of the value, >= 0
    percent   for changes_by: the least move in percent, > 0
    window_s  for changes_by: the length of the window in seconds, a multiple of 60
    """

    kind: SignalKind
    level: float = 0.0
    margin: float = 0.0
    percent: float = 0.0
    window_s: int = 0


class Mark(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One part of a time window: its number since 1970, and its lowest and highest value."""

    part: int
    low: float
    high: float


class RuleState(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The state of a rule between two reports.

    side    for a rule with a level, the side of the value; None: it is not known yet
    marks   for changes_by, the parts of the window that can still have its lowest or highest value
    """

    side: RuleSide | None = None
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Crossing:
    """The reason for a firing: the value, and the direction in which it has moved.

    reference   the level that was crossed; for changes_by, the value that it has moved from
    """

    value: float
    direction: Direction
    reference: float


def look(
    rule: Rule, state: RuleState | None, value: float, time: UnixS
) -> tuple[RuleState, Crossing | None]:
    """Return the state after *value* at *time*, and the crossing if the rule fires, else None.

    state   the state before; None: this is the first evaluation, which never fires
    """
    if rule.kind is SignalKind.CHANGES_BY:
        return _look_back(rule, state or RuleState(), value, time)
    before = None if state is None else state.side
    side = _side(rule, before, value)
    if state is not None and side is before:
        return state, None
    if before is None or side is None:
        return RuleState(side), None
    direction = Direction.UP if side is RuleSide.OVER else Direction.DOWN
    waits_for = {SignalKind.ABOVE: Direction.UP, SignalKind.BELOW: Direction.DOWN}
    fires = waits_for.get(rule.kind, direction) is direction
    return RuleState(side), Crossing(value, direction, rule.level) if fires else None


def _side(rule: Rule, before: RuleSide | None, value: float) -> RuleSide | None:
    """Return the side of *value*, or the side *before* if *rule* puts *value* on neither side."""
    level = rule.level
    margin = 0.0 if before is None else rule.margin  # it is for the way back from a side
    match rule.kind:
        case SignalKind.ABOVE:
            over = value > level
            under = value <= level - margin
        case SignalKind.BELOW:
            over = value >= level + margin
            under = value < level
        case _:
            over = value > level + margin
            under = value < level - margin
    return RuleSide.OVER if over else RuleSide.UNDER if under else before


def _look_back(
    rule: Rule, state: RuleState, value: float, time: UnixS
) -> tuple[RuleState, Crossing | None]:
    """Evaluate a changes_by rule: compare *value* with the lowest and the highest in the window.

    A value <= 0 is skipped, because percentages of it have no meaning.  If the rule fires, the
    window begins again with *value*.
    """
    if value <= 0.0:
        return state, None
    part = time // max(1, rule.window_s // MARKS_MAX)
    if state.marks:
        part = max(part, state.marks[-1].part)  # after a reorg, slots may have earlier times
    marks = [mark for mark in state.marks if mark.part > part - MARKS_MAX]
    crossing = _move(rule.percent / 100.0, marks, value)
    if crossing is not None:
        return RuleState(marks=(Mark(part, value, value),)), crossing
    newest = Mark(part, value, value)
    if marks and marks[-1].part == part:
        last = marks.pop()
        if last.low <= value <= last.high:
            return state, None
        newest = Mark(part, min(last.low, value), max(last.high, value))
    return RuleState(marks=(*_telling(marks, newest), newest)), None


def _telling(marks: list[Mark], newest: Mark) -> list[Mark]:
    """Return those *marks* that have a value below or above all later values."""
    low = newest.low
    high = newest.high
    telling = []
    for mark in reversed(marks):
        if mark.low < low or mark.high > high:
            telling.append(mark)
            low = min(low, mark.low)
            high = max(high, mark.high)
    return telling[::-1]


def _move(share: float, marks: list[Mark], value: float) -> Crossing | None:
    if not marks:
        return None
    low = min(mark.low for mark in marks)
    high = max(mark.high for mark in marks)
    rise = value / low - 1.0
    fall = 1.0 - value / high
    if rise >= share and rise >= fall:
        return Crossing(value, Direction.UP, low)
    return Crossing(value, Direction.DOWN, high) if fall >= share else None


Field = NewType("Field", str)  # such as `indicators.h1.rsi`

PARTS: Final = ("price", "indicators")  # parts of a report whose numbers alerts can watch


def _inner(kind: Any) -> Any:
    """Return the type inside annotations and `| None`."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    inner = [each for each in get_args(kind) if each is not type(None)]
    return _inner(inner[0]) if inner else kind


def _numbers(shape: type[msgspec.Struct]) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield two paths for each float in *shape*: its field names in JSON, its attribute names."""
    for each in msgspec.structs.fields(shape):
        kind = _inner(each.type)
        if kind is float:
            yield (each.encode_name,), (each.name,)
        elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            for names, attributes in _numbers(kind):
                yield (each.encode_name, *names), (each.name, *attributes)


FIELDS: Final[Mapping[Field, tuple[str, ...]]] = {
    Field(".".join(names)): attributes
    for names, attributes in _numbers(TokenReport)
    if names[0] in PARTS
}

ASKED_FRAMES: Final = frozenset(AskedFrame)
OF_CONFIDENCE: Final = {Field("price.liquidityUsd"), Field("price.rejectedShareH1")}
"""Fields about the quality of a price, which alerts evaluate at any confidence."""


ONE_COMPARISON: Final = (
    "expected one comparison of a field with a number or with another field, as rsi_h1 < 30, or one"
    " crossing: alerts evaluate nothing else"
)
OF_SCREENS: Final = {
    "price": "price.usd",
    "price_sol": "price.sol",
    "liquidity": "price.liquidityUsd",
    "pressure_h1": "indicators.buySellPressure.h1",
    **{
        f"{name}_{timeframe}": f"indicators.{timeframe}.{inside}"
        for timeframe in FRAMES
        for name, inside in (
            *((average, average) for average in ("ema9", "ema21", "ema50", "ema200", "rsi")),
            ("macd", "macd.line"),
            ("macd_signal", "macd.signal"),
            ("macd_histogram", "macd.histogram"),
            ("swing_high", "fibonacci.swingHigh"),
            ("swing_low", "fibonacci.swingLow"),
        )
    },
}
"""The fields that both screens and reports have: the name in reports by the name in screens."""
SWAPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class UnwatchableCondition(ValueError):
    """The condition cannot be evaluated by alerts; the message is the reason."""


class Watched(NamedTuple):
    """The crossing at which a condition becomes true: *field* crosses *level* or *compared*."""

    field: Field
    kind: SignalKind
    level: float = 0.0
    compared: Field | None = None
    direction: Direction | None = None


def watched_by(condition: grammar.Condition) -> Watched:
    """Return the crossing at which *condition*, a condition of screens, becomes true.

    Raises UnwatchableCondition unless it is one comparison or crossing, of fields in OF_SCREENS.
    """
    if isinstance(condition, grammar.Junction):
        condition = _newest_crossing(condition)
    if not isinstance(condition, grammar.Comparison) or condition.mark not in SWAPPED:
        raise UnwatchableCondition(ONE_COMPARISON)
    mark, left, right = condition
    if isinstance(left, grammar.NumberOf):
        mark = SWAPPED[mark]
        left, right = right, left
    if not isinstance(left, grammar.FieldOf):
        raise UnwatchableCondition(ONE_COMPARISON)
    is_up = mark.startswith(">")
    field = _of_report(left.name)
    if isinstance(right, grammar.NumberOf):
        return Watched(field, SignalKind.ABOVE if is_up else SignalKind.BELOW, right.value)
    if not isinstance(right, grammar.FieldOf):
        raise UnwatchableCondition(ONE_COMPARISON)
    direction = Direction.UP if is_up else Direction.DOWN
    compared = _of_report(right.name)
    return Watched(field, SignalKind.CROSSES_FIELD, compared=compared, direction=direction)


def _newest_crossing(condition: grammar.Junction) -> grammar.Condition:
    """Return the newest comparison in *condition* if it is one crossing, else *condition*."""
    parts = condition.parts if condition.word == "or" else (condition,)
    crossings = [
        each for each in parts if isinstance(each, grammar.Junction) and _is_crossing(each)
    ]
    is_one = len(crossings) == len(parts) and not any(map(grammar.fields_in, crossings[1:]))
    return crossings[0].parts[-1] if is_one else condition


def _is_crossing(condition: grammar.Junction) -> bool:
    """Return whether *condition* is the parsed form of crosses_above or crosses_below."""
    if condition.word != "and" or len(condition.parts) != len(("before", "now")):
        return False
    before, now = condition.parts
    if not isinstance(before, grammar.Comparison) or not isinstance(now, grammar.Comparison):
        return False
    return (before.mark, now.mark) in grammar.CROSSINGS.values() and any(
        isinstance(each, grammar.BeforeOf) for each in (before.left, before.right)
    )


def _of_report(name: str) -> Field:
    known = OF_SCREENS.get(name)
    if known is None:
        raise UnwatchableCondition(
            f"{name} is not a field of reports; alerts compare fields of reports"
        )
    return Field(known)


def frames_in(field: Field) -> Collection[str]:
    """Return the timeframe that a report contains only on request, if *field* is in one."""
    inside = field.split(".")[1]  # in indicators.buySellPressure.h4, h4 is no timeframe
    return [inside] if inside in ASKED_FRAMES else []


def read_field(report: TokenReport, field: Field) -> float | None:
    """Return the value of *field*, one of FIELDS; None if the report does not have the value."""
    found: Any = report
    for attribute in FIELDS[field]:
        if found is None or found is msgspec.UNSET:
            return None
        found = getattr(found, attribute)
    return None if found is None else float(found)

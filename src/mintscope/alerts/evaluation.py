"""Evaluation of alerts in the order of the swap log.

A method that takes long is a generator: it yields after each LOOKS_AT_ONCE rules and while it loads
mints, so that its caller can let other tasks run.  Call no other method before the generator has
ended.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from mintscope.alerts.alert import (
    Alert,
    FiredHour,
    Fires,
    FiringKind,
    MintBase,
    NewFiring,
    SignalId,
)
from mintscope.alerts.conditions import (
    OF_CONFIDENCE,
    Field,
    Rule,
    RuleState,
    Tracks,
    frames_in,
    look,
    pack,
    read_field,
)
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.kit.time import HOUR_MS
from mintscope.market.log import Event, LoadedMint, LogTip, Untracked
from mintscope.market.report import TokenReport
from mintscope.market.standings import Confidence

LOOKS_AT_ONCE: Final = 250  # rules that are evaluated at once, in 2 ms
LOADS_AT_ONCE: Final = 5  # mints that are loaded at once, in 1 ms
FIRINGS_HOUR_MAX: Final = 30
LISTED_FACTOR: Final = 10  # the most firings listed in an hour, as a multiple of the hourly limit


class _Watched(msgspec.Struct, gc=False):
    """An alert under evaluation, and the current state of its rule."""

    signal_id: SignalId
    revision: int
    mint: Mint
    field: Field
    rule: Rule
    is_closed: bool
    least_confidence: Confidence
    state: RuleState | None
    hour_since: UnixMs | None
    hour_count: int
    fires: Fires
    compared: Field | None
    expires_at: UnixMs | None
    has_ended: bool = False

    def number_in_hour(self, now: UnixMs) -> int:
        """Count a firing, and return its number in the hour; 0 if the alert must not fire now.

        For an alert that fires only once, return 1, and do not count the firing in the hour.
        """
        if self.has_ended or (self.expires_at is not None and now >= self.expires_at):
            return 0
        self.has_ended = self.fires is Fires.ONCE
        if self.has_ended:
            return 1
        since = self.hour_since
        # An hour that begins in the future is replaced, too: the clock was set back.
        if since is None or not since <= now < since + HOUR_MS:
            self.hour_since = now
            self.hour_count = 0
        if self.fires is Fires.HOURLY and self.hour_count >= 1:
            return 0
        self.hour_count += 1
        return self.hour_count


@dataclass(slots=True)
class _OfMint:
    """The alerts of one mint.

    open     the alerts that are evaluated after each slot in which the mint is traded
    closed   the alerts that are evaluated at the end of each minute, without the open candles
    frames   the number of fields of these alerts that need each `AskedFrame`
    """

    open: dict[SignalId, _Watched] = field(default_factory=dict)
    closed: dict[SignalId, _Watched] = field(default_factory=dict)
    frames: Counter[str] = field(default_factory=Counter)

    def add(self, watched: _Watched) -> None:
        """Add an alert of the mint, which was not added before."""
        (self.closed if watched.is_closed else self.open)[watched.signal_id] = watched
        self.frames.update(_frames_of(watched))

    def remove(self, watched: _Watched) -> None:
        """Remove an alert that was added."""
        del (self.closed if watched.is_closed else self.open)[watched.signal_id]
        self.frames.subtract(_frames_of(watched))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Results of the evaluation, which are stored in one transaction.

    since_seq, seq   the reports after *since_seq*, up to *seq*, were evaluated
    changed          the alerts with a changed state, by ID
    fired            the firings to store, in order of time
    held             the indexes in *fired* of firings beyond *hour_max*, which are not sent
    hour_max         the most firings of an alert that are sent in an hour
    hours            for each alert that fired, its last firing and its number of firings in an hour
    ended            the alerts that fire only once, and have fired
    bases            the states of mints, from which a restart continues, that are not stored yet
    idle             the mints whose stored states are also valid as of *seq*; empty if not
                     requested
    dropped          the mints whose stored states are no longer needed
    """

    since_seq: int
    seq: int
    changed: Mapping[SignalId, _Watched]
    fired: Sequence[NewFiring]
    held: frozenset[int]
    hour_max: int
    hours: Mapping[SignalId, FiredHour]
    ended: Collection[SignalId]
    bases: Sequence[LoadedMint]
    idle: Sequence[Mint]
    dropped: Sequence[Mint]


@dataclass(frozen=True, slots=True)
class PackedOutcome:
    """Results of the evaluation, with the changed states encoded for storage.

    states   the ID, revision and state (JSON) of each alert with a changed state
    bases    the states of mints from which an evaluation can restart
    """

    outcome: Outcome
    states: Sequence[tuple[SignalId, int, str]]
    bases: Sequence[MintBase]


def packed(outcome: Outcome) -> PackedOutcome:
    """Encode the states of alerts and mints in *outcome* for storage; slow if there are many."""
    return PackedOutcome(
        outcome,
        states=[
            (number, watched.revision, msgspec.json.encode(watched.state).decode())
            for number, watched in outcome.changed.items()
        ],
        bases=[MintBase(base.mint, base.seq, pack(base)) for base in outcome.bases],
    )


@dataclass(kw_only=True, eq=False)
class Evaluation:
    """Evaluates all active alerts, and keeps the results until they are stored.

    firings_hour_max  the most firings of an alert that are sent in an hour; further firings are
                      only listed, and firings beyond LISTED_FACTOR times this limit not even that
    held_back         the number of firings beyond *firings_hour_max*; the caller resets it to 0
    looked_until      the position in the swap log up to which reports were already evaluated
    """

    tracks: Tracks
    firings_hour_max: int = FIRINGS_HOUR_MAX
    held_back: int = 0
    looked_until: int = 0
    _watched: dict[SignalId, _Watched] = field(default_factory=dict, init=False)
    _of_mint: dict[Mint, _OfMint] = field(default_factory=dict, init=False)
    _new: dict[SignalId, _Watched] = field(default_factory=dict, init=False)  # no state yet
    _changed: dict[SignalId, _Watched] = field(default_factory=dict, init=False)
    _fired: list[NewFiring] = field(default_factory=list, init=False)
    _held: set[int] = field(default_factory=set, init=False)  # indexes in _fired
    _counted: dict[SignalId, UnixMs] = field(default_factory=dict, init=False)  # unlisted firings
    _dropped: list[Mint] = field(default_factory=list, init=False)
    _begun: list[Mint] = field(default_factory=list, init=False)
    _looks: int = field(default=0, init=False)  # rules evaluated since the last yield
    _has_begun: bool = field(default=False, init=False)

    @property
    def mints(self) -> Collection[Mint]:
        """The mints of evaluated alerts."""
        return self._of_mint.keys()

    @property
    def numbers(self) -> Collection[SignalId]:
        """The IDs of the alerts that are evaluated."""
        return self._watched.keys()

    def timeframes(self, mint: Mint) -> Collection[str]:
        """Return the timeframes that alerts of *mint* need, and reports contain only on request."""
        of_mint = self._of_mint.get(mint)
        if of_mint is None:
            return []
        return [frame for frame, count in of_mint.frames.items() if count > 0]

    def lacks(self, mint: Mint) -> bool:
        """Return whether *mint* must be loaded, or loaded again with more timeframes."""
        return not self.tracks.has(mint, self.timeframes(mint))

    def knows(self, number: SignalId, revision: int) -> bool:
        """Return whether *revision* of the alert *number* is being evaluated."""
        watched = self._watched.get(number)
        return watched is not None and watched.revision == revision

    @property
    def is_urgent(self) -> bool:
        """Whether a firing, or the first evaluation of an alert, is not stored yet."""
        return bool(self._fired) or self._has_begun

    def clear(self, looked_until: int) -> None:
        """Drop all alerts and results; only reports after *looked_until* will be evaluated."""
        self.looked_until = looked_until
        self._has_begun = False
        self._watched = {}
        self._of_mint = {}
        self._new = {}
        self._changed = {}
        self._fired = []
        self._held = set()
        self._counted = {}
        self._dropped = []
        self._begun = []

    def watch(self, signals: Iterable[Alert]) -> None:
        """Add *signals* to the evaluation, or replace them; each starts with its stored state."""
        for signal in signals:
            self._forget(signal.signal_id)
            asked = signal.rule
            state = _state_of(signal)
            number = signal.signal_id
            watched = _Watched(
                signal_id=number,
                revision=signal.revision,
                mint=asked.mint,
                field=asked.field,
                rule=asked.rule,
                is_closed=asked.is_closed,
                least_confidence=(
                    Confidence.LOW if asked.field in OF_CONFIDENCE else asked.least_confidence
                ),
                state=state,
                hour_since=signal.hour_since,
                hour_count=signal.hour_count,
                fires=asked.fires,
                compared=asked.compared,
                expires_at=asked.expires_at,
            )
            self._watched[number] = watched
            self._of_mint.setdefault(asked.mint, _OfMint()).add(watched)
            if state is None:
                self._new[number] = watched

    def unwatch(self, numbers: Iterable[SignalId]) -> None:
        """Stop the evaluation of these alerts; drop the mints that no other alert needs."""
        for number in numbers:
            mint = self._forget(number)
            if mint is None:
                continue
            of_mint = self._of_mint[mint]
            if not of_mint.open and not of_mint.closed:
                del self._of_mint[mint]
                self.tracks.drop(mint)
                self._dropped.append(mint)

    def apply(self, event: Event, now: UnixMs) -> Iterator[None]:
        """Apply the next event of the log, and evaluate the alerts of the tokens that it changes.

        Events up to the position `looked_until` change numbers, but their alerts are not evaluated
        again.  If *event* begins a new minute, alerts on closed candles are evaluated before its
        trades are applied.

        Raises LogTrimmed if *event* is not the next event.
        """
        if event.seq > self.looked_until and self.tracks.ends_minute(event):
            for mint, of_mint in self._of_mint.items():
                if of_mint.closed and mint in self.tracks:
                    yield from self._look_with(mint, of_mint.closed.values(), now, is_closed=True)
        traded = self.tracks.apply(event)
        begun = []
        for mint in self.tracks.reach():
            begun.append(mint)
            if len(begun) % LOADS_AT_ONCE == 0:
                yield
        if isinstance(event, Untracked) and event.mint in self._of_mint:
            self._dropped.append(event.mint)
        if event.seq <= self.looked_until:
            return
        for mint in dict.fromkeys((*begun, *traded)):
            yield from self._look(mint, now)
        self.looked_until = event.seq

    def take(self, loaded: LoadedMint) -> bool:
        """Track a mint from the state *loaded* on; return False if it is older than the last event.

        Call `look_at_begun` afterwards, to evaluate the alerts of newly tracked mints.
        """
        begun = self.tracks.take(loaded)
        self._begun += begun or ()
        return begun is not None

    def take_bases(self, bases: Sequence[LoadedMint], tip: LogTip) -> Iterator[None]:
        """Start from the stored states *bases* whose log position is not after `looked_until`.

        Drop the other states, and states of mints of which no alert has been evaluated yet.

        tip   the newest position of the log
        """
        seen = {each.mint for each in self._watched.values() if each.state is not None}
        fit = [each for each in bases if each.mint in seen and each.seq <= self.looked_until]
        self._dropped += {each.mint for each in bases} - {each.mint for each in fit}
        start = min((each.seq for each in fit), default=self.looked_until)
        is_tip = start == tip.seq
        self.tracks.begin(start, tip.slot if is_tip else None, tip.time if is_tip else None)
        for each in fit:
            self.tracks.take(each)
            yield

    def can_go_on(self, tip: LogTip) -> bool:
        """Return whether the evaluation can continue at `looked_until`.

        It can if some alert was evaluated before, and if the log, whose newest position is *tip*,
        has reached `looked_until`.
        """
        return len(self._new) < len(self._watched) and self.looked_until <= tip.seq

    def begin_at(self, tip: LogTip) -> None:
        """Begin at *tip*, the newest position of the log; earlier reports are not evaluated."""
        self.tracks.begin(tip.seq, tip.slot, tip.time)
        self.looked_until = tip.seq

    def look_at_begun(self, now: UnixMs) -> Iterator[None]:
        """Evaluate the alerts of the mints whose tracking has begun since the last call.

        Alerts that leave out open candles are not evaluated.
        """
        begun = self._begun
        self._begun = []
        for mint in begun:
            yield from self._look(mint, now)

    def look_at_new(self, now: UnixMs) -> Iterator[None]:
        """Evaluate new alerts on the current reports, except alerts that leave out open candles.

        Do nothing if events up to `looked_until` are still to be applied.
        """
        if self.tracks.seq < self.looked_until:
            return
        new: dict[Mint, list[_Watched]] = {}
        for watched in self._new.values():
            if watched.mint in self.tracks and not watched.is_closed:
                new.setdefault(watched.mint, []).append(watched)
        for mint, watching in new.items():
            yield from self._look_with(mint, watching, now)

    def outcome(self, since_seq: int, *, with_idle: bool) -> Outcome:
        """Return the results to store; they are kept until `written` is called.

        with_idle   whether to store that the states of mints that did not trade are valid as of now
        """
        return Outcome(
            since_seq=since_seq,
            seq=self.looked_until,
            changed=self._changed.copy(),  # a copy, because a thread encodes it
            fired=list(self._fired),
            held=frozenset(self._held),
            hour_max=self.firings_hour_max,
            hours=self._hours(),
            ended=[each.signal_id for each in self._firing() if each.has_ended],
            bases=self.tracks.new_bases(),
            idle=self.tracks.idle() if with_idle else [],
            dropped=list(self._dropped),
        )

    def written(self, outcome: Outcome) -> None:
        """Forget the results in *outcome*, because they are stored now."""
        self._changed.clear()
        self._fired.clear()
        self._held.clear()
        self._counted.clear()
        self._dropped.clear()
        self._has_begun = False
        self.unwatch([each for each in outcome.ended if self._has_ended(each)])
        self.tracks.keep(outcome.bases, outcome.idle, outcome.seq)

    def _firing(self) -> Iterator[_Watched]:
        """Yield the alert of each unstored firing, if the alert is still evaluated."""
        for firing in self._fired:
            watched = self._watched.get(firing.signal_id)
            if watched is not None:
                yield watched

    def _has_ended(self, number: SignalId) -> bool:
        """Return whether the alert fires only once, has fired, and was not resumed since."""
        watched = self._watched.get(number)
        return watched is not None and watched.has_ended

    def _hours(self) -> dict[SignalId, FiredHour]:
        fired_at = {firing.signal_id: firing.fired_at for firing in self._fired} | self._counted
        found = {}
        for number, at in fired_at.items():
            watched = self._watched.get(number)
            if watched is not None:
                found[number] = FiredHour(at, watched.hour_since or at, watched.hour_count)
        return found

    def _forget(self, number: SignalId) -> Mint | None:
        """Drop an alert; return its mint, or None if it was not evaluated."""
        watched = self._watched.pop(number, None)
        if watched is None:
            return None
        self._new.pop(number, None)
        self._changed.pop(number, None)
        self._counted.pop(number, None)
        self._of_mint[watched.mint].remove(watched)
        return watched.mint

    def _look(self, mint: Mint, now: UnixMs) -> Iterator[None]:
        of_mint = self._of_mint.get(mint)
        if of_mint is not None:
            yield from self._look_with(mint, of_mint.open.values(), now)

    def _look_with(
        self, mint: Mint, watching: Collection[_Watched], now: UnixMs, *, is_closed: bool = False
    ) -> Iterator[None]:
        report = self.tracks.report(mint, is_closed=is_closed) if watching else None
        if report is None:
            return
        values: dict[Field, float | None] = {}
        looked_at = {each for each in Confidence if report.price.confidence.is_at_least(each)}
        for watched in watching:
            if watched.least_confidence not in looked_at:
                continue
            value = _value(report, watched.field, values)
            rule = watched.rule
            if watched.compared is not None:
                level = _value(report, watched.compared, values)
                value = None if level is None else value
                rule = msgspec.structs.replace(rule, level=level or 0.0)
            if value is not None:
                self._look_at(watched, rule, value, now)
            self._looks += 1
            if self._looks >= LOOKS_AT_ONCE:
                self._looks = 0
                yield

    def _look_at(self, watched: _Watched, rule: Rule, value: float, now: UnixMs) -> None:
        tracks = self.tracks
        assert tracks.time is not None, "there is a report"
        state, crossing = look(rule, watched.state, value, tracks.time)
        if state is not watched.state and state != watched.state:
            self._has_begun |= watched.state is None
            self._new.pop(watched.signal_id, None)
            watched.state = state
            self._changed[watched.signal_id] = watched
        number = 0 if crossing is None else watched.number_in_hour(now)
        if crossing is None or number == 0:
            return
        if number > self.firings_hour_max:
            self.held_back += 1
            if number > LISTED_FACTOR * self.firings_hour_max:
                self._counted[watched.signal_id] = now
                return
            self._held.add(len(self._fired))
        assert tracks.slot is not None, "there is a report"
        self._fired.append(
            NewFiring(
                signal_id=watched.signal_id,
                kind=FiringKind.FIRED,
                seq=tracks.seq,
                slot=tracks.slot,
                time=tracks.time,
                value=crossing.value,
                direction=crossing.direction,
                reference=crossing.reference,
                fired_at=now,
            )
        )


def _frames_of(watched: _Watched) -> Iterator[str]:
    yield from frames_in(watched.field)
    if watched.compared is not None:
        yield from frames_in(watched.compared)


def _value(report: TokenReport, field: Field, values: dict[Field, float | None]) -> float | None:
    """Return the value of *field*, None if *report* does not have it; *values* is a cache."""
    if field not in values:
        values[field] = read_field(report, field)
    return values[field]


def _state_of(signal: Alert) -> RuleState | None:
    return None if signal.state is None else msgspec.json.decode(signal.state, type=RuleState)

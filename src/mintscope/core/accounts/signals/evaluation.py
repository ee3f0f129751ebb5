"""Evaluating signals: every report of a mint is looked at once, in the order of the swap log."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from mintscope.base.primitives import Mint, UnixMs
from mintscope.core.accounts.signals.signal import FiringKind, NewFiring, Signal, SignalId
from mintscope.core.market.log import Event, LoadedMint, LogTip, Untracked
from mintscope.core.market.report import TokenReport
from mintscope.core.market.signals.fields import read_field
from mintscope.core.market.signals.rule import RuleState, look
from mintscope.core.market.signals.tracks import Tracks

Fired = tuple[Signal, NewFiring]


@dataclass(slots=True)
class _Watched:
    """A signal, and what its rule remembers by now."""

    signal: Signal
    state: RuleState | None
    is_changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is to be written down at once.

    since_seq, seq   the reports behind the first, up to the second, were looked at
    states           of the signals whose state has changed, JSON, by number, with the revision
    fired            what happened, in order
    bases            what mints are begun from again; idle: whose base is as of *seq*, too
    dropped          mints that no signal looks at any more
    """

    since_seq: int
    seq: int
    states: Mapping[SignalId, tuple[int, str | None]]
    fired: Sequence[NewFiring]
    bases: Sequence[LoadedMint]
    idle: Sequence[Mint]
    dropped: Sequence[Mint]


@dataclass(kw_only=True, eq=False)
class Evaluation:
    """All active signals, as of the last event applied.

    looked_until   reports up to this position were looked at before: they are not again
    """

    tracks: Tracks
    looked_until: int = 0
    _watched: dict[SignalId, _Watched] = field(default_factory=dict, init=False)
    _of_mint: dict[Mint, list[_Watched]] = field(default_factory=dict, init=False)
    _fired: list[NewFiring] = field(default_factory=list, init=False)
    _dropped: list[Mint] = field(default_factory=list, init=False)
    _has_begun: bool = field(default=False, init=False)

    @property
    def mints(self) -> Collection[Mint]:
        """The mints that signals look at."""
        return self._of_mint.keys()

    @property
    def is_urgent(self) -> bool:
        """Whether anything fired, or was seen for the first time, that is not written down."""
        return bool(self._fired) or self._has_begun

    def clear(self, looked_until: int) -> None:
        """Forget everything; reports behind *looked_until* are looked at."""
        self.looked_until, self._has_begun = looked_until, False
        self._watched, self._of_mint, self._fired, self._dropped = {}, {}, [], []

    def watch(self, signals: Iterable[Signal]) -> None:
        """Evaluate *signals* and no others; one that has not been changed goes on."""
        watched: dict[SignalId, _Watched] = {}
        of_mint: dict[Mint, list[_Watched]] = {}
        for signal in signals:
            known = self._watched.get(signal.signal_id)
            if known is None or known.signal.revision != signal.revision:
                known = _Watched(signal, _state_of(signal))
            known.signal = signal
            watched[signal.signal_id] = known
            of_mint.setdefault(signal.rule.mint, []).append(known)
        for mint in self._of_mint.keys() - of_mint.keys():
            self.tracks.drop(mint)
            self._dropped.append(mint)
        self._watched, self._of_mint = watched, of_mint

    def apply(self, event: Event, now: UnixMs) -> None:
        """Apply the next event of the log, and look at the reports that it changes."""
        begun, traded = self.tracks.apply(event)
        if isinstance(event, Untracked) and event.mint in self._of_mint:
            self._dropped.append(event.mint)
        if event.seq <= self.looked_until:
            return
        for mint in dict.fromkeys((*begun, *traded)):
            self._look(mint, self._of_mint.get(mint, ()), now)
        self.looked_until = event.seq

    def take(self, loaded: LoadedMint, now: UnixMs) -> bool:
        """Take what was loaded of a mint; False if it is older than the last event applied."""
        begun = self.tracks.take(loaded)
        for mint in begun or ():
            self._look(mint, self._of_mint.get(mint, ()), now)
        return begun is not None

    def take_bases(self, bases: Iterable[LoadedMint], tip: LogTip) -> bool:
        """Begin before the reports that were not looked at, from what was written down.

        False if nothing was that matters; what no signal looks back at is dropped.
        """
        seen = {each.signal.rule.mint for each in self._watched.values() if each.state is not None}
        fit = [each for each in bases if each.mint in seen and each.seq <= self.looked_until]
        self._dropped += [each.mint for each in bases if each not in fit]
        if not seen or self.looked_until > tip.seq:
            return False
        start = min((each.seq for each in fit), default=self.looked_until)
        is_tip = start == tip.seq
        self.tracks.begin(start, tip.slot if is_tip else None, tip.time if is_tip else None)
        for each in fit:
            self.tracks.take(each)
        return True

    def begin_at(self, tip: LogTip) -> None:
        """Begin at the newest position; what happened since the last look is not looked at."""
        self.tracks.begin(tip.seq, tip.slot, tip.time)
        self.looked_until = tip.seq

    def look_at_new(self, now: UnixMs) -> None:
        """Look at what signals have not seen yet, if it is there."""
        if self.tracks.seq < self.looked_until:
            return
        for mint, watching in self._of_mint.items():
            new = [watched for watched in watching if watched.state is None]
            if new and mint in self.tracks:
                self._look(mint, new, now)

    def outcome(self, since_seq: int, *, with_idle: bool) -> Outcome:
        """Return what is to be written down; it stays to be until `written`."""
        states = {
            number: (watched.signal.revision, _encoded(watched.state))
            for number, watched in self._watched.items()
            if watched.is_changed
        }
        return Outcome(
            since_seq=since_seq,
            seq=self.looked_until,
            states=states,
            fired=list(self._fired),
            bases=self.tracks.new_bases(),
            idle=self.tracks.idle() if with_idle else [],
            dropped=list(self._dropped),
        )

    def written(self, outcome: Outcome) -> None:
        """Note that *outcome*, the newest, was written down."""
        for watched in self._watched.values():
            watched.is_changed = False
        self._fired.clear()
        self._dropped.clear()
        self._has_begun = False
        self.tracks.keep(outcome.bases, outcome.idle, outcome.seq)

    def _look(self, mint: Mint, watching: Iterable[_Watched], now: UnixMs) -> None:
        report = self.tracks.report(mint)
        if report is not None:
            for watched in watching:
                self._look_at(watched, report, now)

    def _look_at(self, watched: _Watched, report: TokenReport, now: UnixMs) -> None:
        tracks, asked = self.tracks, watched.signal.rule
        value = read_field(report, asked.field)
        if value is None:
            return
        assert tracks.time is not None, "there is a report"
        assert tracks.slot is not None, "there is a report"
        state, crossing = look(asked.rule, watched.state, value, tracks.time)
        if state != watched.state:
            self._has_begun |= watched.state is None
            watched.state, watched.is_changed = state, True
        if crossing is not None:
            self._fired.append(
                NewFiring(
                    signal_id=watched.signal.signal_id,
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


def _state_of(signal: Signal) -> RuleState | None:
    return None if signal.state is None else msgspec.json.decode(signal.state, type=RuleState)


def _encoded(state: RuleState | None) -> str | None:
    return None if state is None else msgspec.json.encode(state).decode()

"""Writing down what signals have seen: each report counts once, in whichever process."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from mintscope.base.clock import Clock
from mintscope.base.primitives import Mint, UnixMs
from mintscope.base.time import MINUTE_MS, SECOND_MS
from mintscope.core.accounts.signals.emails import EmailBounds, Symbols, tell_by_email
from mintscope.core.accounts.signals.evaluation import Outcome
from mintscope.core.accounts.signals.signal import Signal, SignalId
from mintscope.core.accounts.signals.turn import MintBase, SignalStanding
from mintscope.core.accounts.store import AccountRows, AccountStore
from mintscope.core.market.signals.tracks import pack

LEASE_MS: Final = 10 * SECOND_MS
LEASE_MS_MAX: Final = 5 * MINUTE_MS
COMPARED_AT_ONCE: Final = 1_000  # signals, by their revisions: a millisecond
READ_AT_ONCE: Final = 200  # signals: some milliseconds
DUE_AT_ONCE: Final = 50  # e-mails
EXPIRED_AT_ONCE: Final = 500


ReadSymbols = Callable[[Collection[Mint]], Awaitable[Symbols]]


async def no_symbols(_mints: Collection[Mint]) -> Symbols:
    """Return the symbol of no mint."""
    return {}


@dataclass(frozen=True, slots=True)
class PackedOutcome:
    """An outcome, and what of it is written in another form."""

    outcome: Outcome
    states: Sequence[tuple[SignalId, int, str]]
    bases: Sequence[MintBase]


def packed(outcome: Outcome) -> PackedOutcome:
    """Return *outcome* as it is written down; it takes long where much has changed."""
    return PackedOutcome(
        outcome,
        states=[
            (number, revision, msgspec.json.encode(state).decode())
            for number, (revision, state) in outcome.states.items()
        ],
        bases=[MintBase(base.mint, base.seq, pack(base)) for base in outcome.bases],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalWriter:
    """Where one process at a time writes down what it has seen.

    That reports are looked at once does not rest on the lease: what is written down must begin
    where the last ended.  The lease only spares others the work.

    holder           names this process
    emails_day_max, emails_of_alert_max, email_pause_ms   as in EmailBounds
    symbols          returns what tokens are called, as far as it is known
    lease_ms         after so long without a word from it, another process takes over
    Raises ServiceUnavailable from every verb.
    """

    store: AccountStore
    clock: Clock
    holder: bytes
    emails_day_max: int
    emails_of_alert_max: int = EmailBounds().of_alert_max
    email_pause_ms: int = EmailBounds().pause_ms
    symbols: ReadSymbols = no_symbols
    lease_ms: int = LEASE_MS

    @property
    def bounds(self) -> EmailBounds:
        """How many e-mails are written."""
        return EmailBounds(
            day_max=self.emails_day_max,
            of_alert_max=self.emails_of_alert_max,
            pause_ms=self.email_pause_ms,
        )

    async def take(self) -> SignalStanding | None:
        """Return where the evaluation stands if it is this process's turn."""
        now = self.clock.now()
        standing = await self.store.read(lambda rows: rows.turn.standing())
        is_ours = standing.holder == self.holder
        if is_ours and now + self.lease_ms // 2 < standing.held_until <= now + self.lease_ms:
            return standing
        if not is_ours and _is_held(standing, now):
            return None
        return await self.store.transact(lambda rows: self._hold(rows, now))

    async def leave(self) -> None:
        """Let another process watch at once, if it is this one's turn."""
        await self.store.transact(self._leave)

    async def standing(self) -> SignalStanding:
        """Return where the evaluation stands, in whichever process it is."""
        return await self.store.read(lambda rows: rows.turn.standing())

    async def revisions(self, after: SignalId) -> Mapping[SignalId, int]:
        """Return the revisions of the next signals behind *after*; none: there are no more."""
        return await self.store.read(lambda rows: rows.active.revisions(after, COMPARED_AT_ONCE))

    async def some(self, wanted: Sequence[SignalId]) -> tuple[Sequence[Signal], Sequence[SignalId]]:
        """Return some of the signals *wanted*, in order, and which are left to be read."""
        found = await self.store.read(lambda rows: rows.active.since(wanted[0], READ_AT_ONCE))
        last = found[-1].signal_id if found else wanted[-1]
        chosen = set(wanted)
        some = [signal for signal in found if signal.signal_id in chosen]
        return some, [number for number in wanted if number > last]

    async def bases(self) -> Sequence[MintBase]:
        """Return what mints can be begun from."""
        return await self.store.read(lambda rows: rows.turn.bases())

    async def write(self, packed: PackedOutcome) -> bool:
        """Write down what was packed, all or nothing; False: it does not begin where we stand."""
        now = self.clock.now()
        mints = {*packed.outcome.mints.values()}
        symbols = await self.symbols(mints) if mints else {}
        return await self.store.transact(lambda rows: self._write(rows, packed, now, symbols))

    async def tidy(self) -> None:
        """Write the e-mails whose pause has ended, and end the signals that have expired."""
        now = self.clock.now()
        due, expired = await self.store.read(
            lambda rows: (
                rows.told.due(now, DUE_AT_ONCE),
                rows.told.expired(now, EXPIRED_AT_ONCE),
            )
        )
        if due or expired:
            symbols = await self.symbols({each.rule.mint for each in due})
            await self.store.transact(lambda rows: self._tidy(rows, now, symbols))

    def _tidy(self, rows: AccountRows, now: UnixMs, symbols: Symbols) -> None:
        for signal in rows.told.due(now, DUE_AT_ONCE):
            tell_by_email(rows, signal, now, self.bounds, symbols)
        expired = rows.told.expired(now, EXPIRED_AT_ONCE)
        for signal in expired:
            rows.signals.update(signal.signal_id, is_active=False, ended_at=now)
        if expired:
            rows.turn.touch()

    def _hold(self, rows: AccountRows, now: UnixMs) -> SignalStanding | None:
        standing = rows.turn.standing()
        if standing.holder != self.holder and _is_held(standing, now):
            return None
        rows.turn.hold(self.holder, UnixMs(now + self.lease_ms))
        return rows.turn.standing()

    def _leave(self, rows: AccountRows) -> None:
        if rows.turn.standing().holder == self.holder:
            rows.turn.hold(self.holder, UnixMs(0))

    def _write(
        self, rows: AccountRows, packed: PackedOutcome, now: UnixMs, symbols: Symbols
    ) -> bool:
        standing = rows.turn.standing()
        outcome = packed.outcome
        if standing.holder != self.holder or standing.seq != outcome.since_seq:
            return False
        rows.active.keep_states(packed.states)
        if outcome.fired:
            self._tell(rows, outcome, now, symbols)
        rows.turn.drop_bases(outcome.dropped)
        rows.turn.keep_bases(packed.bases, dict.fromkeys(outcome.idle, outcome.seq))
        rows.turn.advance(outcome.seq)
        return True

    def _tell(self, rows: AccountRows, outcome: Outcome, now: UnixMs, symbols: Symbols) -> None:
        """Note what fired, to be sent where owners want it; of no signal changed meanwhile."""
        numbers = {firing.signal_id for firing in outcome.fired}
        unchanged = {
            signal.signal_id: signal
            for signal in rows.active.some(numbers)
            if signal.revision == outcome.states[signal.signal_id][0]
        }
        told = [
            (unchanged[firing.signal_id], firing)
            for firing in outcome.fired
            if firing.signal_id in unchanged
        ]
        rows.firings.insert_many(
            [(firing, now if signal.sends_webhooks else None) for signal, firing in told],
            by_email={signal.signal_id for signal, _ in told if signal.rule.by_email},
        )
        rows.active.note_fired(
            {number: outcome.hours[number] for number in unchanged if number in outcome.hours}
        )
        for number in unchanged.keys() & set(outcome.ended):
            rows.signals.update(number, is_active=False, ended_at=now)
        for signal in unchanged.values():
            if signal.rule.by_email:
                tell_by_email(rows, signal, now, self.bounds, symbols)


def _is_held(standing: SignalStanding, now: UnixMs) -> bool:
    """Return whether its holder may still be there; not after the clock was set back."""
    return now < standing.held_until <= now + LEASE_MS_MAX

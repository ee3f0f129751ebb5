"""Writing down what signals have seen: each report counts once, in whichever process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from mintscope.base.clock import Clock
from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS, MINUTE_MS, SECOND_MS
from mintscope.core.accounts.mail.email import EmailKind
from mintscope.core.accounts.signals.evaluation import Outcome
from mintscope.core.accounts.signals.signal import NewFiring, Signal, SignalId
from mintscope.core.accounts.signals.turn import MintBase, SignalStanding
from mintscope.core.accounts.store import AccountRows, AccountStore
from mintscope.core.market.signals.tracks import pack

LEASE_MS: Final = 10 * SECOND_MS
LEASE_MS_MAX: Final = 5 * MINUTE_MS
COMPARED_AT_ONCE: Final = 1_000  # signals, by their revisions: a millisecond
READ_AT_ONCE: Final = 200  # signals: some milliseconds


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
    emails_day_max   to one user
    lease_ms         after so long without a word from it, another process takes over
    Raises ServiceUnavailable from every verb.
    """

    store: AccountStore
    clock: Clock
    holder: bytes
    emails_day_max: int
    lease_ms: int = LEASE_MS

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
        return await self.store.transact(lambda rows: self._write(rows, packed, now))

    def _hold(self, rows: AccountRows, now: UnixMs) -> SignalStanding | None:
        standing = rows.turn.standing()
        if standing.holder != self.holder and _is_held(standing, now):
            return None
        rows.turn.hold(self.holder, UnixMs(now + self.lease_ms))
        return rows.turn.standing()

    def _leave(self, rows: AccountRows) -> None:
        if rows.turn.standing().holder == self.holder:
            rows.turn.hold(self.holder, UnixMs(0))

    def _write(self, rows: AccountRows, packed: PackedOutcome, now: UnixMs) -> bool:
        standing, outcome = rows.turn.standing(), packed.outcome
        if standing.holder != self.holder or standing.seq != outcome.since_seq:
            return False
        rows.active.keep_states(packed.states)
        if outcome.fired:
            self._tell(rows, outcome, now)
        rows.turn.drop_bases(outcome.dropped)
        rows.turn.keep_bases(packed.bases, dict.fromkeys(outcome.idle, outcome.seq))
        rows.turn.advance(outcome.seq)
        return True

    def _tell(self, rows: AccountRows, outcome: Outcome, now: UnixMs) -> None:
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
            [(firing, now if signal.sends_webhooks else None) for signal, firing in told]
        )
        rows.active.note_fired(
            {number: outcome.hours[number] for number in unchanged if number in outcome.hours}
        )
        for signal, firing in told:
            if signal.rule.by_email:
                tell_by_email(rows, signal, firing, now, self.emails_day_max)


def _is_held(standing: SignalStanding, now: UnixMs) -> bool:
    """Say whether its holder may still be there; not if the clock was set back since it told."""
    return now < standing.held_until <= now + LEASE_MS_MAX


def tell_by_email(
    rows: AccountRows, signal: Signal, firing: NewFiring, at: UnixMs, emails_day_max: int
) -> bool:
    """Write to the owner of *signal*, unless that was done often enough in a day."""
    kept = rows.users.get(signal.user_id)
    if kept is None or kept.user.verified_at is None:
        return False
    email, kind = kept.user.email, EmailKind.SIGNAL_FIRED
    if len(rows.emails.written_to(email, kind, UnixMs(at - DAY_MS))) >= emails_day_max:
        return False
    asked = signal.rule
    facts = {
        "signal": str(signal.signal_id),
        "mint": asked.mint,
        "field": asked.field,
        "kind": str(firing.kind),
        "value": repr(firing.value),
        "direction": str(firing.direction),
        "reference": repr(firing.reference),
        "slot": str(firing.slot),
    }
    rows.emails.insert(kind, email, facts, None, at)
    return True

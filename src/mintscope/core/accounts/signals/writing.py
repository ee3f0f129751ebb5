"""Writing down what signals have seen: each report counts once, in whichever process."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mintscope.base.clock import Clock
from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS, SECOND_MS
from mintscope.core.accounts.mail.email import EmailKind
from mintscope.core.accounts.signals.evaluation import Outcome
from mintscope.core.accounts.signals.signal import NewFiring, Signal, SignalId
from mintscope.core.accounts.signals.turn import MintBase, SignalStanding
from mintscope.core.accounts.store import AccountRows, AccountStore
from mintscope.core.market.signals.tracks import pack

LEASE_MS: Final = 10 * SECOND_MS


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
        if is_ours and standing.held_until > now + self.lease_ms // 2:
            return standing
        if not is_ours and standing.held_until > now:
            return None
        return await self.store.transact(lambda rows: self._hold(rows, now))

    async def leave(self) -> None:
        """Let another process watch at once, if it is this one's turn."""
        await self.store.transact(self._leave)

    async def active(self) -> tuple[SignalStanding, Sequence[Signal]]:
        """Return every signal that is to be evaluated, and where it stands."""
        return await self.store.read(lambda rows: (rows.turn.standing(), rows.signals.active()))

    async def bases(self) -> Sequence[MintBase]:
        """Return what mints can be begun from."""
        return await self.store.read(lambda rows: rows.turn.bases())

    async def write(self, outcome: Outcome) -> bool:
        """Write down *outcome*, all of it or nothing; False: it does not begin where we stand."""
        now = self.clock.now()
        bases = [MintBase(base.mint, base.seq, pack(base)) for base in outcome.bases]
        return await self.store.transact(lambda rows: self._write(rows, outcome, bases, now))

    def _hold(self, rows: AccountRows, now: UnixMs) -> SignalStanding | None:
        standing = rows.turn.standing()
        if standing.holder != self.holder and standing.held_until > now:
            return None
        rows.turn.hold(self.holder, UnixMs(now + self.lease_ms))
        return rows.turn.standing()

    def _leave(self, rows: AccountRows) -> None:
        if rows.turn.standing().holder == self.holder:
            rows.turn.hold(self.holder, UnixMs(0))

    def _write(
        self, rows: AccountRows, outcome: Outcome, bases: Sequence[MintBase], now: UnixMs
    ) -> bool:
        standing = rows.turn.standing()
        if standing.holder != self.holder or standing.seq != outcome.since_seq:
            return False
        unchanged = _note_states(rows, outcome)
        for firing in outcome.fired:
            signal = unchanged.get(firing.signal_id)
            if signal is not None:
                self._tell(rows, signal, firing, now)
        rows.turn.drop_bases(outcome.dropped)
        rows.turn.keep_bases(bases, dict.fromkeys(outcome.idle, outcome.seq))
        rows.turn.advance(outcome.seq)
        return True

    def _tell(self, rows: AccountRows, signal: Signal, firing: NewFiring, now: UnixMs) -> None:
        """Note a firing, to be sent where its owner wants it."""
        asked = signal.rule
        by_webhook = asked.webhook_url is not None and signal.webhook_failed_at is None
        rows.firings.insert(firing, now if by_webhook else None)
        rows.signals.update(signal.signal_id, fired_at=firing.fired_at)
        if asked.by_email:
            tell_by_email(rows, signal, firing, now, self.emails_day_max)


def _note_states(rows: AccountRows, outcome: Outcome) -> dict[SignalId, Signal]:
    """Write down states; return the signals that were not changed or deleted meanwhile."""
    unchanged: dict[SignalId, Signal] = {}
    for signal_id, (revision, state) in outcome.states.items():
        signal = rows.signals.get(signal_id)
        if signal is not None and signal.revision == revision:
            rows.signals.update(signal_id, state=state)
            unchanged[signal_id] = signal
    return unchanged


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

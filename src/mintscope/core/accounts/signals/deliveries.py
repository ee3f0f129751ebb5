"""Deliveries by webhook: what is to be sent, when again, and when it is enough.

A webhook may be sent twice after a crash, never not at all; its `webhook-id` stays the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mintscope.base.clock import Clock
from mintscope.base.primitives import UnixMs
from mintscope.base.time import HOUR_MS, MINUTE_MS, SECOND_MS
from mintscope.core.accounts.mail.email import EmailKind, tell_owner
from mintscope.core.accounts.secrets import AccountSecrets
from mintscope.core.accounts.signals.signal import Firing, FiringId, Queue, Signal
from mintscope.core.accounts.signals.webhook import message_of, signed
from mintscope.core.accounts.store import AccountRows, AccountStore

LEASE_MS: Final = MINUTE_MS
RETRY_MS_MIN: Final = 10 * SECOND_MS
RETRY_MS_MAX: Final = 2 * HOUR_MS
NO_WEBHOOK: Final = "there is no webhook any more"
DISABLED: Final = "its webhook was disabled"


class Parcel(NamedTuple):
    """A webhook that is to be sent now."""

    firing: Firing
    url: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliveries:
    """Leases webhooks to who sends them, and notes what became of them.

    retry_ms_max   after this long a webhook is disabled
    Raises ServiceUnavailable from every verb.
    """

    store: AccountStore
    secrets: AccountSecrets
    clock: Clock
    retry_ms_max: int

    async def lease(self, *, limit: int) -> Sequence[Parcel]:
        """Lease what is due for a minute, oldest first."""
        now = self.clock.now()
        if not (await self.queue()).due:
            return []  # asked twice a second: the locks of others are left alone
        return await self.store.claim(lambda rows: self._lease(rows, now, limit))

    async def delivered(self, firing_id: FiringId, attempts: int) -> None:
        """Note that a webhook was accepted at that attempt."""
        now = self.clock.now()
        await self.store.transact(
            lambda rows: rows.firings.update(
                firing_id, delivered_at=now, attempts=attempts, reason=None
            )
        )

    async def failed(self, firing: Firing, reason: str, *, is_gone: bool) -> bool:
        """Note why it was not accepted; say whether that was the last attempt.

        is_gone   the receiver wants no more of them
        """
        now = self.clock.now()
        again_at = None if is_gone else self._retry_at(firing, now)
        return await self.store.transact(
            lambda rows: _note_failure(rows, firing, reason, again_at, now)
        )

    async def queue(self) -> Queue:
        """Return how many wait."""
        now = self.clock.now()
        return await self.store.read(lambda rows: rows.firings.queue(now))

    def _lease(self, rows: AccountRows, now: UnixMs, limit: int) -> Sequence[Parcel]:
        parcels = []
        for firing in rows.firings.claim(now, limit):
            signal = rows.signals.get(firing.fired.signal_id)
            if signal is None or signal.rule.webhook_url is None:
                rows.firings.update(firing.firing_id, given_up_at=now, reason=NO_WEBHOOK)
                continue
            rows.firings.update(firing.firing_id, due_at=UnixMs(now + LEASE_MS))
            parcels.append(self._parcel(signal, firing, signal.rule.webhook_url, now))
        return parcels

    def _parcel(self, signal: Signal, firing: Firing, url: str, now: UnixMs) -> Parcel:
        nonces = [signal.nonce]
        until = signal.old_nonce_until
        if signal.old_nonce is not None and until is not None and until > now:
            nonces.append(signal.old_nonce)
        body = message_of(signal, firing)
        keys = [self.secrets.webhook_secret(nonce) for nonce in nonces]
        return Parcel(firing, url, signed(firing.firing_id, now, body, keys), body)

    def _retry_at(self, firing: Firing, now: UnixMs) -> UnixMs | None:
        """Return when to try again: later and later, the last time when *retry_ms_max* is over."""
        end = firing.fired.fired_at + self.retry_ms_max
        if now >= end:
            return None
        pause_ms = min(RETRY_MS_MIN << min(firing.attempts, 16), RETRY_MS_MAX)
        return UnixMs(min(now + pause_ms, end))


def _note_failure(
    rows: AccountRows, firing: Firing, reason: str, again_at: UnixMs | None, now: UnixMs
) -> bool:
    signal = rows.signals.get(firing.fired.signal_id)
    if signal is None:
        return False  # it was deleted meanwhile
    rows.firings.update(firing.firing_id, attempts=firing.attempts + 1, reason=reason)
    if again_at is not None:
        rows.firings.update(firing.firing_id, due_at=again_at)
        return False
    rows.firings.update(firing.firing_id, given_up_at=now)
    rows.firings.give_up(signal.signal_id, now, DISABLED)
    if signal.webhook_failed_at is None:
        rows.signals.update(signal.signal_id, webhook_failed_at=now)
        kept = rows.users.get(signal.user_id)
        if kept is not None:
            facts = {"signal": str(signal.signal_id)}
            tell_owner(rows.emails, kept.user, EmailKind.WEBHOOK_DISABLED, facts, now)
    return True

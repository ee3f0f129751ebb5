"""Deliveries by webhook: what is to be sent, when again, and when it is enough.

A webhook may be sent twice after a crash, never not at all; its `webhook-id` stays the same.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mintscope.base.clock import Clock
from mintscope.base.primitives import UnixMs
from mintscope.base.time import HOUR_MS, MINUTE_MS, SECOND_MS
from mintscope.core.accounts.mail.email import EmailKind, tell_owner
from mintscope.core.accounts.secrets import AccountSecrets
from mintscope.core.accounts.signals.signal import (
    DueWanted,
    Firing,
    FiringId,
    Queue,
    Signal,
    SignalId,
)
from mintscope.core.accounts.signals.webhook import message_of, signed
from mintscope.core.accounts.store import AccountRows, AccountStore

LEASE_MS: Final = MINUTE_MS
AT_ONCE: Final = 128  # that one process sends
FAILING_AT_ONCE: Final = 32  # of those, of signals whose webhooks fail
OF_EACH_AT_ONCE: Final = 4  # of one signal; the next when all of them have ended
RETRY_MS_MIN: Final = 10 * SECOND_MS
RETRY_MS_MAX: Final = 2 * HOUR_MS
NO_WEBHOOK: Final = "there is no webhook any more"
DISABLED: Final = "its webhook was disabled"


class DueWebhook(NamedTuple):
    """A webhook that is to be sent now; *is_failing*: others of its signal have failed."""

    firing: Firing
    is_failing: bool
    url: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliveries:
    """Leases webhooks to who sends them, and notes what became of them.

    retry_ms_max   after this long a webhook is disabled
    lease_ms       after this long another process may send what was leased
    Raises ServiceUnavailable from every verb.
    """

    store: AccountStore
    secrets: AccountSecrets
    clock: Clock
    retry_ms_max: int
    lease_ms: int = LEASE_MS

    async def lease(self, sending: Collection[DueWebhook]) -> Sequence[DueWebhook]:
        """Lease what can be sent beside *sending*: some of each signal, whatever others are up to.

        A signal whose webhooks fail takes places only of those kept for such signals.
        """
        now, room = self.clock.now(), AT_ONCE - len(sending)
        if room <= 0 or not await self.store.read(lambda rows: rows.webhooks.is_due(now)):
            return []  # asked twice a second: the locks of others are left alone
        failing = FAILING_AT_ONCE - sum(webhook.is_failing for webhook in sending)
        without = {webhook.firing.fired.signal_id for webhook in sending}
        return await self.store.claim(
            lambda rows: self._lease(rows, now, {False: room, True: failing}, without)
        )

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
        return await self.store.read(lambda rows: rows.webhooks.queue())

    def _lease(
        self,
        rows: AccountRows,
        now: UnixMs,
        most: Mapping[bool, int],
        without: Collection[SignalId],
    ) -> Sequence[DueWebhook]:
        """Lease of the signals that do not fail, then of those that do, so many at most."""
        webhooks: list[DueWebhook] = []
        signed_at = rows.webhooks.time(now)  # receivers refuse what is minutes off
        for is_failing in (False, True):
            count = min(most[is_failing], most[False] - len(webhooks))
            wanted = DueWanted(
                count=count, of_each=OF_EACH_AT_ONCE, without=without, are_failing=is_failing
            )
            for firing in rows.webhooks.claim(now, wanted) if count > 0 else ():
                signal = rows.signals.get(firing.fired.signal_id)
                if signal is None or signal.rule.webhook_url is None:
                    rows.firings.update(firing.firing_id, given_up_at=now, reason=NO_WEBHOOK)
                    continue
                rows.firings.update(firing.firing_id, due_at=UnixMs(now + self.lease_ms))
                headers, body = self._message(signal, firing, signed_at)
                url = signal.rule.webhook_url
                webhooks.append(DueWebhook(firing, is_failing, url, headers, body))
        return webhooks

    def _message(self, signal: Signal, firing: Firing, now: UnixMs) -> tuple[dict[str, str], bytes]:
        nonces = [signal.nonce]
        until = signal.old_nonce_until
        if signal.old_nonce is not None and until is not None and until > now:
            nonces.append(signal.old_nonce)
        body = message_of(signal, firing)
        keys = [self.secrets.webhook_secret(nonce) for nonce in nonces]
        return signed(firing.firing_id, now, body, keys), body

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
    rows.webhooks.give_up(signal.signal_id, now, DISABLED)
    if signal.webhook_failed_at is None:
        rows.signals.update(signal.signal_id, webhook_failed_at=now)
        kept = rows.users.get(signal.user_id)
        if kept is not None:
            facts = {"signal": str(signal.signal_id)}
            tell_owner(rows.emails, kept.user, EmailKind.WEBHOOK_DISABLED, facts, now)
    return True

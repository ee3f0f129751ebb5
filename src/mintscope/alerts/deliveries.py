"""Webhooks of alerts: schedule, retries and signature.

A crash can cause a webhook to be sent twice, with the same `webhook-id`, but never to be lost.

Source    https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import hmac
from base64 import b64encode
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from mintscope.accounts.mail.email import EmailKind
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.secrets import AccountSecrets
from mintscope.alerts.alert import Alert, Firing, FiringId, FiringKind, QueueLength, SignalId
from mintscope.alerts.conditions import SignalKind
from mintscope.alerts.queue_store import (
    DueAlert,
    DueWanted,
    NewWebhook,
    SqlQueueRows,
    SqlWebhookQueue,
    WebhookOutcome,
)
from mintscope.kit.audit import UserId
from mintscope.kit.clock import Clock
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, iso_time

SECRET_PREFIX: Final = "whsec_"  # noqa: S105  not a secret
URL_LENGTH_MAX: Final = 500
HTTPS_PORT: Final = 443
USER_PORT_MIN: Final = 1024
PORT_MAX: Final = 65_535
TYPES: Final = {FiringKind.FIRED: "signal.fired", FiringKind.TEST: "signal.test"}


class FiredData(msgspec.Struct, frozen=True, rename="camel"):
    """The firing, as `data` in the body of a webhook."""

    signal_id: int
    event_id: int
    name: str
    mint: str
    field: str
    kind: SignalKind
    value: float
    direction: str
    reference: float
    slot: int
    time: int
    message: str = ""
    compared_with: str | None = None


class WebhookBody(msgspec.Struct, frozen=True):
    """The JSON body of a webhook."""

    type: str
    timestamp: str
    data: FiredData


def message_of(signal: Alert, firing: Firing) -> bytes:
    """Return the body of the webhook about *firing*."""
    asked = signal.rule
    fired = firing.fired
    data = FiredData(
        signal_id=signal.signal_id,
        event_id=firing.firing_id,
        name=asked.name,
        mint=asked.mint,
        field=asked.field,
        kind=asked.kind,
        value=fired.value,
        direction=fired.direction,
        reference=fired.reference,
        slot=fired.slot,
        time=fired.time,
        message=asked.message,
        compared_with=asked.compared,
    )
    return msgspec.json.encode(WebhookBody(TYPES[fired.kind], iso_time(fired.fired_at), data))


def secret_text(secret: bytes) -> str:
    """Return *secret* in the form of Standard Webhooks: a prefix and base64."""
    return SECRET_PREFIX + b64encode(secret).decode()


def signed(
    firing_id: FiringId, at: UnixMs, body: bytes, secrets: Sequence[bytes]
) -> dict[str, str]:
    """Return the headers of a webhook: its id, the time *at*, and its signature by each secret."""
    name = f"msg_{firing_id}"  # the same at every attempt
    at_s = at // 1000
    text = f"{name}.{at_s}.".encode() + body
    signatures = [b64encode(hmac.digest(secret, text, "sha256")).decode() for secret in secrets]
    return {
        "webhook-id": name,
        "webhook-timestamp": str(at_s),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }


def url_flaw(url: str, *, allows_loopback: bool) -> str | None:
    """Return the reason why *url* cannot receive webhooks; None if it can.

    If the host is an IP address, it is checked here.  The addresses of a host name are checked at
    each attempt to send.

    allows_loopback   whether addresses of this machine are accepted as well, with https or http
    """
    expected = f"expected an https address of at most {URL_LENGTH_MAX} characters"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return expected
    if len(url) > URL_LENGTH_MAX or not url.isascii() or not url.isprintable() or " " in url:
        return f"{expected}, in ASCII"
    if not parts.hostname or parts.username is not None or parts.fragment:
        return f"{expected}, with a host, and without a user or a fragment"
    if parts.scheme != "https" and not (
        allows_loopback and parts.scheme == "http" and is_loopback(parts.hostname)
    ):
        return expected
    if port is not None and port != HTTPS_PORT and not USER_PORT_MIN <= port <= PORT_MAX:
        return f"expected port {HTTPS_PORT}, or {USER_PORT_MIN} to {PORT_MAX}; was {port}"
    is_open = not _is_inside(parts.hostname) or (allows_loopback and is_loopback(parts.hostname))
    return None if is_open else f"expected a public address; was {parts.hostname!r}"


def _is_inside(host: str) -> bool:
    try:
        return not ip_address(host).is_global
    except ValueError:
        return is_loopback(host)


def is_loopback(host: str) -> bool:
    """Return whether *host* is localhost or a loopback address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


LEASE_MS: Final = MINUTE_MS
AT_ONCE: Final = 128  # the most webhooks that one process sends at a time
FAILING_AT_ONCE: Final = 32  # the most of these from alerts whose last batch failed
OF_EACH_AT_ONCE: Final = 4  # the most webhooks of one alert in a batch
TAKEN_IN_AT_ONCE: Final = 250  # firings read on the event loop, in a few milliseconds
PARTS_MAX: Final = 20  # the most parts of TAKEN_IN_AT_ONCE firings in one call of `take_in`
WAITING_MAX: Final = 1_000
KEPT_MAX: Final = 1_000
KEEP_MS: Final = 30 * DAY_MS
RETRY_MS_MIN: Final = 10 * SECOND_MS
RETRY_MS_MAX: Final = 2 * HOUR_MS
NO_WEBHOOK: Final = "the alert no longer has a webhook"
DISABLED: Final = "its webhook was disabled"
TOO_LATE: Final = "it was not sent in time"
NOT_KEPT: Final = "newer webhooks replaced it"


class DueWebhook(NamedTuple):
    """A webhook to send now: its firing, and the URL, headers and body of the request."""

    firing: Firing
    url: str
    headers: dict[str, str]
    body: bytes


class DeliveryBatch(NamedTuple):
    """A batch of webhooks of one alert.

    failures   the number of batches of the alert in a row that failed before this one
    """

    signal_id: SignalId
    user_id: UserId
    failures: int
    webhooks: Sequence[DueWebhook]


class Attempt(NamedTuple):
    """The outcome of an attempt to send a webhook.

    reason         the reason why the webhook was not accepted or could not be sent; None: it was
                   accepted, or a limit prevented the attempt
    is_gone        whether the receiver answered that it wants no further webhooks (410)
    retry_after_s  the seconds to wait, if a limit prevented the attempt; None: no limit did
    """

    firing: Firing
    reason: str | None = None
    is_gone: bool = False
    retry_after_s: int | None = None

    @property
    def has_failed(self) -> bool:
        """Whether the attempt was made, and the webhook was not accepted or could not be sent."""
        return self.reason is not None


class Ended(NamedTuple):
    """A batch of webhooks that were tried, and the outcome of each of them."""

    batch: DeliveryBatch
    attempts: Sequence[Attempt]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliveries:
    """Leases webhooks to senders, and records their outcomes.

    retry_ms_max   the milliseconds from a firing to the last attempt to send its webhook; if this
                   attempt fails, the alert's webhooks are disabled
    lease_ms       the milliseconds after which another process may send a leased webhook
    waiting_max    the most waiting webhooks of an alert
    kept_max       the most webhooks of an alert that are stored after they have ended
    Every method raises ServiceUnavailable if a database fails.
    """

    store: AccountStore
    queue: SqlWebhookQueue
    secrets: AccountSecrets
    clock: Clock
    retry_ms_max: int
    lease_ms: int = LEASE_MS
    waiting_max: int = WAITING_MAX
    kept_max: int = KEPT_MAX

    async def take_in(self) -> int:
        """Queue the webhooks of new firings; return the number of dropped webhooks.

        One call reads at most PARTS_MAX times TAKEN_IN_AT_ONCE firings.  If more than `waiting_max`
        webhooks of an alert wait, older ones, except the oldest, are dropped.  Firings older than
        `retry_ms_max` are not sent.
        """
        since = await self.queue.read(lambda queue: queue.taken_until())
        if since is None:
            # The queue is new, or was lost.
            first = await self.store.read(lambda rows: rows.firings.first_waiting())
            since = FiringId(first - 1)
        dropped = 0
        for _ in range(PARTS_MAX):
            fired = await self._fired(since)
            if fired:
                since = fired[-1].firing_id
                dropped += await self._take_in(since, fired)
            if len(fired) < TAKEN_IN_AT_ONCE:
                break
        return dropped

    async def lease(self, sending: Collection[DeliveryBatch]) -> Sequence[DeliveryBatch]:
        """Lease some webhooks of due alerts that have no batch in *sending*.

        Together with the webhooks in *sending*, these are at most AT_ONCE, and at most
        FAILING_AT_ONCE of them are of alerts whose last batch failed.
        """
        now = self.clock.now()
        room = AT_ONCE - _count(sending)
        if room <= 0 or not await self.queue.read(lambda queue: queue.is_due(now)):
            return []  # without the write lock, because this is called often
        failing = FAILING_AT_ONCE - _count([batch for batch in sending if batch.failures])
        without = {batch.signal_id for batch in sending}

        def claim(rows: SqlQueueRows) -> tuple[UnixMs, Sequence[DueAlert]]:
            until = UnixMs(now + self.lease_ms)
            found = rows.claim(now, until, DueWanted(room, OF_EACH_AT_ONCE, without))
            left = min(failing, room - sum(len(each.webhooks) for each in found))
            # While the webhooks of an alert fail, only one of them is tried at a time.
            more = rows.claim(now, until, DueWanted(left, 1, without, is_failing=True))
            return rows.time(now), [*found, *more]

        signed_at, due = await self.queue.transact(claim)  # receivers check the time
        over: dict[FiringId, WebhookOutcome] = {}
        # Read now, because the webhook may have been removed, or the account taken back, since the
        # firings were queued.
        batches = await self.store.read(
            lambda rows: [self._batch(rows, each, signed_at, over) for each in due]
        )
        lost = [each for each, batch in zip(due, batches, strict=True) if batch is None]

        def let_go(rows: SqlQueueRows) -> None:
            rows.note(over)
            for each in lost:
                rows.give_up(each.signal_id, now, NO_WEBHOOK)

        if lost or over:
            await self.queue.transact(let_go)
        return [batch for batch in batches if batch is not None]

    async def note(self, ended: Sequence[Ended]) -> Sequence[Ended]:
        """Store the outcomes of webhooks; return the batches after which their webhook is disabled.

        A webhook is disabled when its receiver wants no further webhooks, or when the last attempt
        has failed.  If the URL of an alert was changed after its batch was leased, failures are not
        stored, because they say nothing about the new URL.
        """
        now = self.clock.now()
        last: Sequence[Ended] = [each for each in ended if self._is_over(each, now)]
        if last:  # this comes first: it can be repeated if storing the rest fails
            last = await self.store.transact(partial(_disable, last=last, now=now))
        old = await self.store.read(lambda rows: [_has_old_url(rows, each.batch) for each in ended])
        over = {each.batch.signal_id for each in last}

        def note(rows: SqlQueueRows) -> None:
            for each, is_old in zip(ended, old, strict=True):
                if is_old:
                    accepted = [attempt for attempt in each.attempts if not attempt.has_failed]
                    rows.note(_outcomes(accepted, now, is_over=False))
                else:
                    self._note(rows, each, now, is_over=each.batch.signal_id in over)

        await self.queue.transact(note)
        return last

    async def length(self) -> QueueLength:
        """Return the number of waiting webhooks, and the time of the oldest."""
        return await self.queue.read(lambda queue: queue.length())

    async def sweep(self) -> None:
        """Delete old webhooks, those beyond `kept_max` of an alert, and those of deleted alerts."""
        before = UnixMs(self.clock.now() - KEEP_MS)
        numbers = await self.queue.read(lambda queue: queue.signals())
        deleted = await self.store.read(lambda rows: rows.firings.deleted(numbers))
        await self.queue.transact(lambda rows: rows.purge(before, self.kept_max, deleted))

    async def _fired(self, since: FiringId) -> Sequence[Firing]:
        return await self.store.read(lambda rows: rows.firings.since(since, TAKEN_IN_AT_ONCE))

    async def _take_in(self, until: FiringId, fired: Sequence[Firing]) -> int:
        now = self.clock.now()
        waiting = [each for each in fired if each.due_at is not None and not _is_done(each)]
        new = [self._new(each, now) for each in waiting]
        numbers = {each.signal_id for each in new}
        reason = f"{self.waiting_max:,} others waited"

        def take_in(rows: SqlQueueRows) -> int:
            rows.take_in(until, new, now)
            return rows.drop_oldest(numbers, self.waiting_max, now, reason)

        return await self.queue.transact(take_in)

    def _new(self, firing: Firing, now: UnixMs) -> NewWebhook:
        fired = firing.fired
        is_late = now > fired.fired_at + self.retry_ms_max
        return NewWebhook(
            firing_id=firing.firing_id,
            signal_id=fired.signal_id,
            fired_at=fired.fired_at,
            attempts=firing.attempts,
            given_up_at=now if is_late else None,
            reason=TOO_LATE if is_late else None,
        )

    def _batch(
        self,
        rows: AccountRows,
        due: DueAlert,
        signed_at: UnixMs,
        over: dict[FiringId, WebhookOutcome],
    ) -> DeliveryBatch | None:
        """Return the batch of a due alert; None if the alert was deleted or has no webhook.

        signed_at   the time that the signatures confirm
        over   receives the outcomes of webhooks that must not be sent: their firing was deleted, or
               their firing's own row has an outcome, because the owner took the account back or a
               process of an earlier version sent the webhook
        """
        signal = rows.signals.get(due.signal_id)
        if signal is None or signal.rule.webhook_url is None:
            return None
        webhooks = []
        for waiting in due.webhooks:
            firing = rows.firings.get(waiting.firing_id)
            if firing is None:
                over[waiting.firing_id] = WebhookOutcome(
                    None, waiting.attempts, None, signed_at, NOT_KEPT
                )
                continue
            if _is_done(firing):
                attempts = max(waiting.attempts, firing.attempts)
                over[waiting.firing_id] = WebhookOutcome(
                    None, attempts, firing.delivered_at, firing.given_up_at, firing.reason
                )
                continue
            sent = firing.after(waiting.attempts)
            headers, body = self._message(signal, sent, signed_at)
            webhooks.append(DueWebhook(sent, signal.rule.webhook_url, headers, body))
        return DeliveryBatch(due.signal_id, signal.user_id, due.failures, webhooks)

    def _message(self, signal: Alert, firing: Firing, now: UnixMs) -> tuple[dict[str, str], bytes]:
        nonces = [signal.nonce]
        if signal.old_nonce is not None and (signal.old_nonce_until or 0) > now:
            nonces.append(signal.old_nonce)
        body = message_of(signal, firing)
        keys = [self.secrets.webhook_secret(nonce) for nonce in nonces]
        return signed(firing.firing_id, now, body, keys), body

    def _is_over(self, ended: Ended, now: UnixMs) -> bool:
        return any(
            each.has_failed and (each.is_gone or now >= self._end(each.firing))
            for each in ended.attempts
        )

    def _note(self, rows: SqlQueueRows, ended: Ended, now: UnixMs, *, is_over: bool) -> None:
        batch, attempts = ended
        rows.note(_outcomes(attempts, now, is_over=is_over))
        if is_over:
            rows.give_up(batch.signal_id, now, DISABLED)
        else:
            rows.schedule(batch.signal_id, *self._next(batch, attempts, now))

    def _next(
        self, batch: DeliveryBatch, attempts: Sequence[Attempt], now: UnixMs
    ) -> tuple[int, UnixMs]:
        """Return the number of failures in a row, and the time of the next attempt.

        Each failure doubles the pause, up to RETRY_MS_MAX.  The last attempt is `retry_ms_max`
        after the oldest firing of the batch whose webhook failed.
        """
        failed = [each.firing for each in attempts if each.has_failed]
        rests_s = [each.retry_after_s for each in attempts if each.retry_after_s is not None]
        if failed:
            # The inner `min` keeps the number small, because failures are counted without a limit.
            pause_ms = min(RETRY_MS_MIN << min(batch.failures, 16), RETRY_MS_MAX)
            end = min(self._end(firing) for firing in failed)
            return batch.failures + 1, UnixMs(min(now + pause_ms, end))
        failures = batch.failures if len(rests_s) == len(attempts) else 0
        return failures, UnixMs(now + max(rests_s, default=0) * SECOND_MS)

    def _end(self, firing: Firing) -> UnixMs:
        return UnixMs(firing.fired.fired_at + self.retry_ms_max)


def _is_done(firing: Firing) -> bool:
    return firing.delivered_at is not None or firing.given_up_at is not None


def _count(batches: Collection[DeliveryBatch]) -> int:
    return sum(len(batch.webhooks) for batch in batches)


def _outcomes(
    attempts: Sequence[Attempt], now: UnixMs, *, is_over: bool
) -> dict[FiringId, WebhookOutcome]:
    """Return the outcomes of those *attempts* that were made; *is_over*: no further ones follow."""
    return {
        each.firing.firing_id: WebhookOutcome(
            due_at=None,
            attempts=each.firing.attempts + 1,
            delivered_at=None if each.has_failed else now,
            given_up_at=now if each.has_failed and is_over else None,
            reason=each.reason,
        )
        for each in attempts
        if each.retry_after_s is None
    }


def _has_old_url(rows: AccountRows, batch: DeliveryBatch) -> bool:
    """Return whether the alert of *batch* still exists, but with another URL or none."""
    signal = rows.signals.get(batch.signal_id)
    return signal is not None and any(
        webhook.url != signal.rule.webhook_url for webhook in batch.webhooks
    )


def _disable(rows: AccountRows, last: Sequence[Ended], now: UnixMs) -> Sequence[Ended]:
    """Disable the webhook of the alert of each batch in *last*, and notify the owner.

    A webhook whose URL has changed since its batch was sent stays enabled.  Return the batches
    whose webhooks were disabled.
    """
    current = [each for each in last if not _has_old_url(rows, each.batch)]
    for each in current:
        signal = rows.signals.get(each.batch.signal_id)
        if signal is None or signal.webhook_failed_at is not None:
            continue  # the alert was deleted, or its webhook is already disabled
        rows.signals.update(signal.signal_id, webhook_failed_at=now)
        kept = rows.users.get(signal.user_id)
        if kept is not None:
            facts = {"signal": str(signal.signal_id)}
            rows.emails.tell_owner(kept.user, EmailKind.WEBHOOK_DISABLED, facts, now)
    return current

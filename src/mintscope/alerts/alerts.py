"""Operations on the alerts of users, and storage of the results of their evaluation."""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from mintscope.accounts.rows import AccountRows, AccountStore, asked_for, expect_user
from mintscope.accounts.secrets import NONCE_BYTES, AccountSecrets, IdempotencyRecord
from mintscope.alerts import emails
from mintscope.alerts.alert import (
    Alert,
    AlertDenied,
    AlertRule,
    AlertStanding,
    EmailState,
    Fires,
    Firing,
    FiringId,
    FiringKind,
    Gathered,
    HeldFirings,
    MintBase,
    NewFiring,
    SignalId,
    TelegramState,
    has_passed,
)
from mintscope.alerts.conditions import Direction, Rule
from mintscope.alerts.deliveries import secret_text
from mintscope.alerts.evaluation import FIRINGS_HOUR_MAX, Outcome, PackedOutcome
from mintscope.alerts.queue_store import SqlWebhookQueue, with_outcome
from mintscope.alerts.telegram_chats import TelegramChats, wait_for_telegram
from mintscope.kit.audit import UserId
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.limits import Limit
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.kit.time import DAY_MS, HOUR_MS, HOUR_S, MINUTE_MS, SECOND_MS
from mintscope.market.standings import Confidence

OLD_SECRET_MS: Final = DAY_MS
NUMBER_DIGITS_MAX: Final = 18  # such numbers fit in 64 bits
TESTS: Final = Limit(name="signal-tests", count=10, window_s=HOUR_S)  # the most tests of a user
ReadSymbols = Callable[[Collection[Mint]], Awaitable[emails.Symbols]]


async def no_symbols(_mints: Collection[Mint]) -> emails.Symbols:
    """Return an empty mapping of symbols, so that messages name tokens by their mints."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertBounds:
    """The limits of alerts.

    of_all_max        the most evaluated alerts of all users together
    mints_max         the most mints that these evaluated alerts can have in all
    firings_hour_max  the most firings of an alert that are sent in an hour
    allows_loopback   whether webhooks can go to addresses of this machine, also by plain http
    telegram_bot      the user name of the operator's Telegram bot; "": there is no bot
    """

    per_user_max: int = 20
    of_all_max: int = 10_000
    mints_max: int = 1_000
    of_emails: emails.EmailBounds = emails.USUAL_BOUNDS
    firings_hour_max: int = FIRINGS_HOUR_MAX
    allows_loopback: bool = False
    telegram_bot: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerts:
    """Reads and changes the alerts of users; each operation changes *store* in one transaction.

    entropy    returns the given number of cryptographically random bytes
    queue      the queue of webhooks; None: no webhooks are sent
    Every coroutine raises ServiceUnavailable if a database fails; nothing was then changed.
    """

    store: AccountStore
    secrets: AccountSecrets
    clock: Clock
    entropy: Callable[[int], bytes]
    bounds: AlertBounds = AlertBounds()
    queue: SqlWebhookQueue | None = None
    symbols: ReadSymbols = no_symbols

    @property
    def telegram(self) -> TelegramChats:
        """The operations on the Telegram chats of accounts."""
        return TelegramChats(
            store=self.store,
            secrets=self.secrets,
            clock=self.clock,
            bot=self.bounds.telegram_bot,
        )

    def flaw(self, asked: AlertRule) -> str | None:
        """Return an error message about *asked*; None if it is valid."""
        return emails.flaw_of(asked, allows_loopback=self.bounds.allows_loopback)

    def secret(self, signal: Alert) -> str:
        """Return the secret that signs the webhooks of *signal*, as the text shown to the owner."""
        return secret_text(self.secrets.webhook_secret(signal.nonce))

    async def of_user(self, user_id: UserId) -> Sequence[Alert]:
        """Return the alerts of a user, in order of creation."""
        return await self.store.read(lambda rows: rows.signals.of_user(user_id))

    async def find(self, user_id: UserId, signal_id: SignalId) -> Alert | None:
        """Return an alert of a user; None if the user has no such alert."""
        return await self.store.read(lambda rows: _find(rows, user_id, signal_id))

    async def make(
        self, user_id: UserId, asked: AlertRule, key: str | None = None
    ) -> Alert | AlertDenied:
        """Create an alert with the valid settings *asked*; return it, or the reason for a refusal.

        key   the Idempotency-Key; a repetition with the same key and settings returns the same
              alert, or NOT_FOUND if the alert was deleted; None: there is no key
        Raises UserRemoved.
        """
        now = self.clock.now()
        nonce = self.entropy(NONCE_BYTES)
        key_hash = self.secrets.request_hash(key, user_id)
        wanted = asked_for("signal", asked)

        def make(rows: AccountRows) -> Alert | AlertDenied:
            expect_user(rows, user_id)
            # Before all other checks: a repetition gets its alert even if they would fail now.
            made = None if key_hash is None else rows.made.find(key_hash)
            if made is not None:
                if made.asked != wanted:
                    return AlertDenied.KEY_USED
                return _find(rows, user_id, SignalId(made.thing_id)) or AlertDenied.NOT_FOUND
            if has_passed(asked, None, now):
                return AlertDenied.EXPIRED
            denied = self._denied(rows, user_id, asked, None)
            if denied is not None:
                return denied
            signal_id = rows.signals.insert(user_id, asked, nonce, now)
            if key_hash is not None:
                rows.made.insert(key_hash, IdempotencyRecord(wanted, signal_id), now)
            rows.lease.touch()
            return _kept(rows, signal_id)

        return await self.store.transact(make)

    async def change(
        self,
        user_id: UserId,
        signal_id: SignalId,
        edit: Callable[[AlertRule], AlertRule],
        *,
        enables_webhook: bool = False,
    ) -> Alert | AlertDenied:
        """Change an alert with *edit*, which must return valid settings.

        If *edit* activates the alert or changes what is evaluated, such as the level or the expiry,
        the evaluation starts over: the first evaluation cannot fire.  If *edit* activates the alert
        or changes the URL, or if *enables_webhook* is true, a disabled webhook is enabled again.
        If the URL changes, waiting webhooks are sent at once.  Return the alert, or the reason for
        a refusal.
        """
        now = self.clock.now()

        def change(rows: AccountRows) -> Alert | AlertDenied:
            signal = _find(rows, user_id, signal_id)
            if signal is None:
                return AlertDenied.NOT_FOUND
            before = signal.rule
            asked = edit(before)
            if has_passed(asked, before, now):
                return AlertDenied.EXPIRED
            denied = self._denied(rows, user_id, asked, before)
            if denied is not None:
                return denied
            rows.signals.change(signal_id, asked)
            is_resumed = asked.is_active > before.is_active
            has_other_url = asked.webhook_url != before.webhook_url
            if is_resumed or _evaluated(asked) != _evaluated(before):
                rows.signals.update(signal_id, revision=signal.revision + 1, state=None)
            if is_resumed:
                rows.signals.update(signal_id, ended_at=None)
            if has_other_url:
                rows.signals.update(signal_id, webhook_at=now)
            if is_resumed or has_other_url or enables_webhook:
                rows.signals.update(signal_id, webhook_failed_at=None)
            rows.lease.touch()
            return _kept(rows, signal_id)

        changed = await self.store.transact(change)
        if isinstance(changed, Alert) and changed.webhook_at == now:
            await self._try_now(signal_id, now)
        return changed

    async def delete(self, user_id: UserId, signal_id: SignalId) -> Sequence[Alert] | None:
        """Delete an alert and its firings; return the user's other alerts, None if not found."""

        def delete(rows: AccountRows) -> Sequence[Alert] | None:
            if _find(rows, user_id, signal_id) is None:
                return None
            rows.signals.delete(signal_id)
            rows.lease.touch()
            return rows.signals.of_user(user_id)

        return await self.store.transact(delete)

    async def renew_secret(
        self, user_id: UserId, signal_id: SignalId, key: str | None = None
    ) -> Alert | AlertDenied:
        """Renew the webhook secret of an alert; return the alert, or the reason for a refusal.

        For a day, both the old and the new secret sign webhooks.

        key   the Idempotency-Key: a repetition renews no secret, because the old one would stop
              signing at once; None: there is no key
        """
        now = self.clock.now()
        nonce = self.entropy(NONCE_BYTES)
        until = UnixMs(now + OLD_SECRET_MS)
        key_hash = self.secrets.request_hash(key, user_id)
        wanted = asked_for("webhook secret", signal_id)

        def renew(rows: AccountRows) -> Alert | AlertDenied:
            made = None if key_hash is None else rows.made.find(key_hash)
            if made is not None and made.asked != wanted:
                return AlertDenied.KEY_USED
            old = _find(rows, user_id, signal_id)
            if old is None:
                return AlertDenied.NOT_FOUND
            if made is not None:
                return old
            if key_hash is not None:
                rows.made.insert(key_hash, IdempotencyRecord(wanted, signal_id), now)
            rows.signals.update(signal_id, nonce=nonce, old_nonce=old.nonce, old_nonce_until=until)
            return _kept(rows, signal_id)

        return await self.store.transact(renew)

    async def test(self, user_id: UserId, signal_id: SignalId) -> Firing | None:
        """Send a test firing of an alert; return the firing, None if there is no such alert."""
        signal = await self.find(user_id, signal_id)
        if signal is None:
            return None
        symbols = await self.symbols({signal.rule.mint}) if signal.rule.by_email else {}
        now = self.clock.now()

        def test(rows: AccountRows) -> Firing | None:
            found = _find(rows, user_id, signal_id)
            if found is None:
                return None
            asked = found.rule
            firing = NewFiring(
                signal_id=signal_id,
                kind=FiringKind.TEST,
                seq=0,
                slot=Slot(0),
                time=UnixS(now // 1000),
                value=asked.level,
                direction=Direction.UP,
                reference=asked.level,
                fired_at=now,
            )
            firing_id = rows.firings.insert(
                firing,
                # Even if the webhook is disabled: its owner may have repaired the receiver.
                due_at=None if asked.webhook_url is None else now,
                email=EmailState.WAITING if asked.by_email else None,
                telegram=TelegramState.WAITING if asked.by_telegram else None,
            )
            if asked.by_email:
                gathered = Gathered(1, firing_id, rows.firings.of_signal(signal_id, None, 1))
                emails.write_email(rows, found, gathered, now, self.bounds.of_emails, symbols)
            if asked.by_telegram and found.telegram_due_at is None:
                rows.signals.update(signal_id, telegram_due_at=now)
            return rows.firings.of_signal(signal_id, FiringId(firing_id + 1), 1)[0]

        tested = await self.store.transact(test)
        if tested is not None and tested.due_at is not None:
            await self._try_now(signal_id, now)
        return tested

    async def pause(self, link: str) -> Alert | None:
        """Stop the e-mails and Telegram messages of the alert that the pause link *link* names.

        Each of these messages contains such a link.  An alert without a webhook is paused; its
        owner can resume it.  Return the alert; None if the link is invalid or the alert was
        deleted.
        """
        signal = await self.of_link(link)
        if signal is None:
            return None

        def stop(asked: AlertRule) -> AlertRule:
            if asked.webhook_url is None:
                return replace(asked, is_active=False)
            return replace(asked, by_email=False, by_telegram=False)

        changed = await self.change(signal.user_id, signal.signal_id, stop)
        return changed if isinstance(changed, Alert) else None

    async def of_link(self, link: str) -> Alert | None:
        """Return the alert that the pause link *link* names.

        Return None if the link is invalid or the alert was deleted.
        """
        number, _, proof = link.partition(".")
        if not (number.isascii() and number.isdigit() and len(number) < NUMBER_DIGITS_MAX):
            return None
        if not self.secrets.is_pause_proof(int(number), proof):
            return None
        return await self.store.read(lambda rows: rows.signals.get(SignalId(int(number))))

    async def refused(self, user_id: UserId) -> int:
        """Return the number of a user's firings that a limit kept from being sent.

        Only firings of the last 24 hours count.
        """
        since = UnixMs(self.clock.now() - DAY_MS)
        return await self.store.read(lambda rows: rows.firings.refused(user_id, since))

    async def firings(
        self, user_id: UserId, signal_id: SignalId, before: FiringId | None, limit: int
    ) -> Sequence[Firing] | None:
        """Return up to *limit* firings of an alert, newest first; None if there is no such alert.

        before   only firings with a smaller ID; None: all
        """

        def read(rows: AccountRows) -> Sequence[Firing] | None:
            if _find(rows, user_id, signal_id) is None:
                return None
            return rows.firings.of_signal(signal_id, before, limit)

        found = await self.store.read(read)
        if not found or self.queue is None:
            return found
        numbers = [each.firing_id for each in found]
        outcomes = await self.queue.read(lambda queue: queue.outcomes(numbers))
        return [
            with_outcome(each, outcomes[each.firing_id]) if each.firing_id in outcomes else each
            for each in found
        ]

    async def _try_now(self, signal_id: SignalId, now: UnixMs) -> None:
        """End the pause after failed webhooks of an alert: its waiting webhooks are sent now."""
        if self.queue is not None:
            with suppress(ServiceUnavailable):  # the webhooks are then sent after the pause
                await self.queue.transact(lambda rows: rows.schedule(signal_id, 0, now))

    def _denied(
        self, rows: AccountRows, user_id: UserId, asked: AlertRule, before: AlertRule | None
    ) -> AlertDenied | None:
        """Return the reason to refuse *asked*; None if it is allowed.

        before   the settings that *asked* replaces; None: a new alert
        """
        if before is None and len(rows.signals.of_user(user_id)) >= self.bounds.per_user_max:
            return AlertDenied.TOO_MANY
        kept = rows.users.get(user_id)
        if asked.by_email and (kept is None or kept.user.verified_at is None):
            return AlertDenied.UNVERIFIED
        # Only if Telegram is switched on now: an alert of an unlinked chat can still be changed.
        if asked.by_telegram and (before is None or not before.by_telegram):
            chat = rows.chats.chat(user_id)
            if chat is None or chat.blocked_at is not None or not self.bounds.telegram_bot:
                return AlertDenied.UNLINKED
        if not asked.is_active or (before is not None and before.is_active):
            return None
        crowd = rows.signals.crowd(asked.mint)
        if crowd.signals >= self.bounds.of_all_max:
            return AlertDenied.TOO_MANY_OF_ALL
        has_room = crowd.has_mint or crowd.mints < self.bounds.mints_max
        return None if has_room else AlertDenied.TOO_MANY_MINTS


def _evaluated(asked: AlertRule) -> tuple[Rule, bool, Confidence, Fires, UnixMs | None]:
    """Return those settings of *asked* whose change makes the evaluation start over."""
    ends = asked.fires, asked.expires_at
    return asked.rule, asked.is_closed, asked.least_confidence, *ends


def _find(rows: AccountRows, user_id: UserId, signal_id: SignalId) -> Alert | None:
    signal = rows.signals.get(signal_id)
    return signal if signal is not None and signal.user_id == user_id else None


def _kept(rows: AccountRows, signal_id: SignalId) -> Alert:
    signal = rows.signals.get(signal_id)
    assert signal is not None, "it was written just now"
    return signal


LEASE_MS: Final = 10 * SECOND_MS
LEASE_MS_MAX: Final = 5 * MINUTE_MS
COMPARED_AT_ONCE: Final = 1_000  # revisions of alerts that are read at once, in 1 ms
READ_AT_ONCE: Final = 100  # alerts that are read at once, in 2 ms
DUE_AT_ONCE: Final = 50  # e-mails that are written in one transaction
EXPIRED_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertWriter:
    """Stores the results of evaluating alerts; one process at a time evaluates them.

    A result is stored only if it begins at the position in the swap log up to which results are
    stored, so no result is stored twice.  The lease keeps other processes from doing the same work.

    holder     the name of this process
    lease_ms   the duration of the lease in milliseconds, unless it is renewed
    Every method raises ServiceUnavailable if the database fails.
    """

    store: AccountStore
    clock: Clock
    holder: bytes
    bounds: emails.EmailBounds = emails.USUAL_BOUNDS
    symbols: ReadSymbols = no_symbols
    lease_ms: int = LEASE_MS

    async def take(self) -> AlertStanding | None:
        """Take or renew the lease, and return the progress; None if another process has it."""
        now = self.clock.now()
        standing = await self.store.read(lambda rows: rows.lease.standing())
        is_ours = standing.holder == self.holder
        # Renewed only in its second half, because each renewal is a write; but at once if it seems
        # to last too long, because the clock was set back.
        if is_ours and now + self.lease_ms // 2 < standing.held_until <= now + self.lease_ms:
            return standing
        if not is_ours and _is_held(standing, now):
            return None

        def hold(rows: AccountRows) -> AlertStanding | None:
            standing = rows.lease.standing()
            if standing.holder != self.holder and _is_held(standing, now):
                return None
            rows.lease.hold(self.holder, UnixMs(now + self.lease_ms))
            return rows.lease.standing()

        return await self.store.transact(hold)

    async def leave(self) -> None:
        """Give up the lease if this process has it; another process can take over at once."""

        def leave(rows: AccountRows) -> None:
            if rows.lease.standing().holder == self.holder:
                rows.lease.hold(self.holder, UnixMs(0))

        await self.store.transact(leave)

    async def standing(self) -> AlertStanding:
        """Return the progress of the evaluation, whichever process runs it."""
        return await self.store.read(lambda rows: rows.lease.standing())

    async def revisions(self, after: SignalId) -> Mapping[SignalId, int]:
        """Return the revisions of up to COMPARED_AT_ONCE active alerts above the ID *after*."""
        return await self.store.read(lambda rows: rows.signals.revisions(after, COMPARED_AT_ONCE))

    async def some(self, wanted: Sequence[SignalId]) -> tuple[Sequence[Alert], Sequence[SignalId]]:
        """Return the first alerts of *wanted*, and the IDs that must still be read.

        Alerts that are no longer evaluated are left out.  *wanted* must be sorted and not empty.
        """
        found = await self.store.read(lambda rows: rows.signals.since(wanted[0], READ_AT_ONCE))
        place = bisect_right(wanted, found[-1].signal_id) if found else len(wanted)
        chosen = set(wanted[:place])
        return [signal for signal in found if signal.signal_id in chosen], wanted[place:]

    async def bases(self) -> Sequence[MintBase]:
        """Return the stored states of mints, from which an evaluation restarts."""
        return await self.store.read(lambda rows: rows.lease.bases())

    async def write(self, packed: PackedOutcome) -> bool:
        """Store results of the evaluation; return whether they were stored.

        Nothing is stored if another process has the lease, or if the results do not begin at the
        position up to which results are stored.
        """
        now = self.clock.now()
        reached = await self.store.transact(lambda rows: self._write(rows, packed, now))
        if reached is None:
            return False
        with suppress(ServiceUnavailable):  # the next firing beyond the limit writes the e-mail
            for start in range(0, len(reached), DUE_AT_ONCE):
                part = reached[start : start + DUE_AT_ONCE]
                await self.store.transact(partial(self._tell_limits, part, now))
        return True

    async def tidy(self) -> bool:
        """Write due e-mails, and end expired alerts; return whether more may remain.

        One call handles at most DUE_AT_ONCE e-mails and EXPIRED_AT_ONCE alerts, because other
        transactions wait for it.
        """
        now = self.clock.now()
        due, expired = await self.store.read(
            lambda rows: (
                rows.signals.email_due(now, DUE_AT_ONCE),
                rows.signals.expired(now, EXPIRED_AT_ONCE),
            )
        )
        if due or expired:
            symbols = await self.symbols({each.rule.mint for each in due})
            await self.store.transact(lambda rows: self._tidy(rows, now, symbols))
        return len(due) == DUE_AT_ONCE or len(expired) == EXPIRED_AT_ONCE

    def _tidy(self, rows: AccountRows, now: UnixMs, symbols: emails.Symbols) -> None:
        for signal in rows.signals.email_due(now, DUE_AT_ONCE):
            emails.tell_by_email(rows, signal, now, self.bounds, symbols)
        expired = rows.signals.expired(now, EXPIRED_AT_ONCE)
        for signal in expired:
            rows.signals.update(signal.signal_id, is_active=False, ended_at=now)
        if expired:
            rows.lease.touch()

    def _tell_limits(
        self, reached: Sequence[tuple[SignalId, emails.Reached]], now: UnixMs, rows: AccountRows
    ) -> None:
        for number, limit in reached:
            signal = rows.signals.get(number)
            if signal is not None:
                emails.tell_hour_limit(rows, signal, limit, now, self.bounds)

    def _write(
        self, rows: AccountRows, packed: PackedOutcome, now: UnixMs
    ) -> Sequence[tuple[SignalId, emails.Reached]] | None:
        """Store *packed*; return the alerts beyond the hourly limit, None if nothing was stored."""
        standing = rows.lease.standing()
        outcome = packed.outcome
        if standing.holder != self.holder or standing.seq != outcome.since_seq:
            return None
        rows.signals.keep_states(packed.states)
        reached = self._tell(rows, outcome, now) if outcome.fired or outcome.hours else []
        # First, because a mint whose old base is dropped may have a new one.
        rows.lease.drop_bases(outcome.dropped)
        rows.lease.keep_bases(packed.bases, dict.fromkeys(outcome.idle, outcome.seq))
        rows.lease.advance(outcome.seq)
        return reached

    def _tell(
        self, rows: AccountRows, outcome: Outcome, now: UnixMs
    ) -> Sequence[tuple[SignalId, emails.Reached]]:
        """Store the firings, and schedule the messages; return the alerts beyond the hourly limit.

        Firings of alerts that were paused or deleted, or whose evaluation has started over since,
        are left out.  Other transactions write the e-mails, because the e-mails of thousands of
        alerts would exceed the time limit of one transaction.
        """
        numbers = {firing.signal_id for firing in outcome.fired} | outcome.hours.keys()
        unchanged = {
            signal.signal_id: signal
            for signal in rows.signals.some(numbers)
            if signal.revision == outcome.changed[signal.signal_id].revision
        }
        listed = [
            (unchanged[firing.signal_id], firing, place in outcome.held)
            for place, firing in enumerate(outcome.fired)
            if firing.signal_id in unchanged
        ]
        held = frozenset(place for place, (_, _, is_held) in enumerate(listed) if is_held)
        rows.firings.insert_many(
            [(firing, now if signal.sends_webhooks else None) for signal, firing, _ in listed],
            by_email={signal.signal_id for signal, _, _ in listed if signal.rule.by_email},
            by_telegram={signal.signal_id for signal, _, _ in listed if signal.rule.by_telegram},
            held=HeldFirings(held, emails.hour_note(outcome.hour_max)),
        )
        rows.signals.note_fired(
            {number: outcome.hours[number] for number in unchanged if number in outcome.hours}
        )
        for number in unchanged.keys() & set(outcome.ended):
            rows.signals.update(number, is_active=False, ended_at=now)
        sent = {signal.signal_id: signal for signal, _, is_held in listed if not is_held}
        rows.signals.wait_for_email([n for n, signal in sent.items() if signal.rule.by_email], now)
        for signal in sent.values():
            if signal.rule.by_telegram:
                wait_for_telegram(rows, signal, now)
        at_limit = sorted({signal.signal_id for signal, _, is_held in listed if is_held})
        ends = [UnixMs(outcome.hours[number].since + HOUR_MS) for number in at_limit]
        reached = [emails.Reached(outcome.hour_max, until) for until in ends]
        return list(zip(at_limit, reached, strict=True))


def _is_held(standing: AlertStanding, now: UnixMs) -> bool:
    """Return whether the lease is valid at *now*.

    A lease whose end is too far ahead is not valid: the clock was set back.
    """
    return now < standing.held_until <= now + LEASE_MS_MAX

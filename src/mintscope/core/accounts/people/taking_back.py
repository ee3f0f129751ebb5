"""An account is taken back: what was made or changed in it since a thief came in ends.

Each change that gives lasting access is sent to the owner by e-mail, with a link for a week.
It ends all that was done since the session began in which that was made, brings the address back
that the e-mail was sent to, and lets its reader choose another password.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mintscope.base.primitives import UnixMs
from mintscope.base.time import DAY_MS
from mintscope.core.accounts.audit import Event, EventFilter
from mintscope.core.accounts.keys.api_key import KEYS_SHOWN_MAX, KeyId, KeyLine
from mintscope.core.accounts.mail.email import EmailKind, tell_owner
from mintscope.core.accounts.people.access import drop_factors, end_sessions
from mintscope.core.accounts.proof import NewProof, Purpose
from mintscope.core.accounts.store import AccountRows
from mintscope.core.accounts.user import User, UserId, UserKind

CAPPED: Final = "capped"  # the audit log, of a key whose cap was changed
EVENTS_AT_ONCE: Final = 100  # events of a key that are searched for its earlier cap at once
TOLD_MAX: Final = 20  # e-mails of a kind in a day
TAKEN_BACK: Final = "the account was taken back"
RESET_BACK_MS: Final = Purpose.UNDO_EMAIL.lifetime_ms  # how far a reset may reach back


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How much of each kind ended.

    sessions   all of them
    factors    authenticator apps and passkeys
    alerts     alert rules that were made
    webhooks   addresses of webhooks that were changed, and are sent to no longer
    caps       of API keys, which are as they were before
    """

    sessions: int
    keys: int
    factors: int
    wallets: int
    alerts: int
    webhooks: int
    caps: int


def end_since(rows: AccountRows, user_id: UserId, since: UnixMs, at: UnixMs) -> Ended:
    """End every session, and what was made or changed in the account at *since* or later."""
    sessions = end_sessions(rows, user_id)
    app = rows.apps.of_user(user_id)
    factors = int(app is not None and app.made_at >= since)
    factors += sum(each.made_at >= since for each in rows.passkeys.of_user(user_id))
    drop_factors(rows, user_id, since=since)
    caps, keys = _end_keys(rows, user_id, since, at)
    wallets = [each for each in rows.wallets.of_user(user_id) if each.linked_at >= since]
    for linked in wallets:
        rows.wallets.unlink(user_id, linked.wallet)
    alerts, webhooks = _end_alerts(rows, user_id, since, at)
    return Ended(
        sessions=sessions,
        keys=keys,
        factors=factors,
        wallets=len(wallets),
        alerts=alerts,
        webhooks=webhooks,
        caps=caps,
    )


def _end_keys(rows: AccountRows, user_id: UserId, since: UnixMs, at: UnixMs) -> tuple[int, int]:
    """Return how many caps are as they were before *since*, and how many keys ended."""
    caps = keys = 0
    for key in rows.user_keys.shown(user_id, at, KEYS_SHOWN_MAX):
        if key.revoked_at is not None:
            continue
        if key.created_at >= since:
            rows.api_keys.update(key.key_id, revoked_at=at)
            keys += 1
        else:
            caps += _restore_cap(rows, key, since)
    return caps, keys


def _restore_cap(rows: AccountRows, key: KeyLine, since: UnixMs) -> bool:
    """Give *key* the cap that it had before *since*; False if it was not changed."""
    is_changed = False
    before = "none"
    for event in _caps_of(rows, key.key_id):
        if event.at < since:
            before = event.detail["credits"]
            break
        is_changed = True
    if is_changed:
        cap = None if before == "none" else int(before)
        rows.api_keys.update(key.key_id, month_credits_max=cap)
    return is_changed


def _caps_of(rows: AccountRows, key_id: KeyId) -> Iterator[Event]:
    """Yield each change of the cap of a key, newest first."""
    subject = f"key:{key_id}"
    wanted = EventFilter(who=subject, action=CAPPED)
    before: int | None = None
    while page := rows.events.newest(before, EVENTS_AT_ONCE, wanted):
        before = page[-1][0]
        for _, event in page:
            if event.subject == subject:
                yield event


def _end_alerts(rows: AccountRows, user_id: UserId, since: UnixMs, at: UnixMs) -> tuple[int, int]:
    """Return how many alert rules are deleted, and how many others send no webhooks any more."""
    alerts = webhooks = 0
    for signal in rows.signals.of_user(user_id):
        if signal.created_at >= since:
            rows.signals.delete(signal.signal_id)
            alerts += 1
        elif signal.webhook_at is not None and signal.webhook_at >= since:
            rows.signals.update(signal.signal_id, webhook_url=None)
            rows.firings.give_up(signal.signal_id, at, TAKEN_BACK)
            webhooks += signal.rule.webhook_url is not None
    if alerts or webhooks:
        rows.turn.touch()
    return alerts, webhooks


def announce(  # noqa: PLR0913, PLR0917 - one argument for each part
    rows: AccountRows,
    owner: User,
    kind: EmailKind,
    facts: dict[str, str],
    nonce: bytes,
    since: UnixMs,
    at: UnixMs,
) -> None:
    """Write to the owner of what was done in a session that began at *since*, with an undo.

    Without one to an address that is not verified, which may be a stranger's, and to an agent.
    """
    if owner.verified_at is None:
        tell_owner(rows.emails, owner, kind, facts, at)
        return
    if len(rows.emails.written_to(owner.email, kind, UnixMs(at - DAY_MS))) >= TOLD_MAX:
        return  # the reader knows by now
    proof_id = None
    if owner.kind is UserKind.PERSON:
        proof_id = rows.proofs.insert(
            NewProof(Purpose.UNDO_EMAIL, owner.user_id, owner.email, nonce, at, since)
        )
    rows.emails.insert(kind, owner.email, facts, proof_id, at)

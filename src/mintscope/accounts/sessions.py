"""The rights of a session, and the recovery of an account by its owner.

A change such as a new key, password or second factor is reported to the owner in an e-mail with an
undo link that is valid for a week.  The link undoes this change, and others of that kind that were
made since the session of the reported change began.  It also restores the address that the e-mail
was sent to, and lets the owner set a new password.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mintscope.accounts.factor_rows import PasskeyId, User, UserKind
from mintscope.accounts.keys.key import KEYS_SHOWN_MAX, KeyLine
from mintscope.accounts.mail.email import EmailKind
from mintscope.accounts.rows import AccountRows
from mintscope.accounts.session import (
    EVER,
    SESSIONS_PER_USER_MAX,
    NewProof,
    NewSession,
    Purpose,
    Session,
    SessionEnded,
)
from mintscope.accounts.signups.application import SignupId, subject_of
from mintscope.accounts.signups.signups import forget
from mintscope.kit.audit import Actor, Event, EventFilter, UserId, user_actor
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import DAY_MS

# A reviewer is a person in a session, or an actor on this machine, such as a command.
Reviewer = Session | Actor

LINKED: Final = "linked Telegram"  # the action in the audit log
UNLINKED: Final = "unlinked Telegram"

OF_USERS: Final = [each for each in Purpose if each is not Purpose.CONFIRM_APPLICATION]


def expect_session(rows: AccountRows, session: Session) -> User:
    """Return the user of *session*, read in this transaction.  Raises SessionEnded."""
    found = rows.sessions.get(session.session_id)
    if found is None or found.user.user_id != session.user.user_id:
        raise SessionEnded
    return found.user


def keep_session(
    rows: AccountRows,
    user_id: UserId,
    session: NewSession,
    at: UnixMs,
    *,
    passkey_id: PasskeyId | None = None,
) -> None:
    """Add a session, and delete the user's oldest sessions beyond SESSIONS_PER_USER_MAX.

    The sign-in is noted in the audit log.

    passkey_id   the passkey of the sign-in, for the audit log; None: it used no passkey
    """
    rows.sessions.insert(user_id, session, at)
    newest = sorted(each.session_id for each in rows.sessions.of_user(user_id))
    for session_id in newest[:-SESSIONS_PER_USER_MAX]:
        rows.sessions.delete(session_id)
    if passkey_id is None:
        rows.events.note_own(at, user_id, "signed in")
    else:
        rows.events.note_own(at, user_id, "signed in with passkey", passkey=str(passkey_id))


def end_sessions(rows: AccountRows, user_id: UserId, *, but: Session | None = None) -> int:
    """End the user's sessions except *but*, and waiting sign-ins; return the number of sessions."""
    kept = None if but is None else but.session_id
    ended = {session.session_id for session in rows.sessions.of_user(user_id)} - {kept}
    for session_id in ended:
        rows.sessions.delete(session_id)
    # Otherwise a sign-in that waits for its second factor could still open a session.
    rows.sign_ins.end(user_id)
    return len(ended)


def drop_factors(rows: AccountRows, user_id: UserId, *, since: UnixMs = EVER) -> None:
    """Remove the user's second factors and recovery codes that were added at *since* or later."""
    for factors in (rows.apps, rows.passkeys, rows.recovery_codes):
        factors.end(user_id, since)


def end_access(rows: AccountRows, user_id: UserId, at: UnixMs) -> int:
    """End the user's sessions, and revoke second factors, links of e-mails and API keys.

    Return the number of revoked keys.
    """
    end_sessions(rows, user_id)
    drop_factors(rows, user_id)
    for purpose in OF_USERS:
        rows.proofs.use_up(purpose, user_id, at)
    return rows.api_keys.revoke_active(user_id, at)


def unlink_telegram(rows: AccountRows, user_id: UserId, actor: Actor, at: UnixMs) -> None:
    """Unlink the Telegram chat of a user; the logged event makes earlier link codes invalid."""
    if rows.chats.chat(user_id) is not None:
        rows.chats.unlink(user_id)
        rows.events.note(at, actor, UNLINKED, f"user:{user_id}")


def remove(rows: AccountRows, user: User, actor: Actor, at: UnixMs, **detail: str) -> None:
    """Mark the account of *user* as removed, and end all access to it.

    Also delete the alerts and the spend alert of the account, and unlink its Telegram chat.

    detail   further facts for the audit log
    """
    revoked = end_access(rows, user.user_id, at)
    for signal in rows.signals.of_user(user.user_id):
        rows.signals.delete(signal.signal_id)
        # The evaluator then reads the alerts again.
        rows.lease.touch()
    unlink_telegram(rows, user.user_id, actor, at)
    rows.credits.set_spend_level(user.user_id, None, 0)
    if user.kind is UserKind.PERSON:
        rows.users.update(user.user_id, password_hash="")  # no password matches this hash
    rows.users.update(user.user_id, removed_at=at)
    subject = f"user:{user.user_id}"
    rows.events.note(at, actor, "removed", subject, keys_revoked=str(revoked), **detail)


def erase(rows: AccountRows, user: User, actor: Actor, at: UnixMs, **detail: str) -> None:
    """Remove the account of *user*, unless it is removed already, and delete its personal data.

    Watchlists, wallets, client addresses and networks of keys are deleted.  The user's row is kept,
    without user name and e-mail address.
    """
    for line in rows.watchlists.of_user(user.user_id):
        rows.watchlists.delete(line.watchlist_id)
    for linked in rows.wallets.of_user(user.user_id):
        rows.wallets.unlink(user.user_id, linked.wallet)
    rows.key_addresses.forget(user.user_id)
    if rows.users.get(user.user_id) is not None:
        remove(rows, user, actor, at, **detail)
    # After `remove`, which revokes the keys: an active key without networks would be accepted from
    # anywhere.
    rows.api_keys.forget_networks(user.user_id)
    rows.users.update(user.user_id, administrator=False)
    rows.users.forget_name(user.user_id)


def issued_keys(rows: AccountRows, signup_id: SignupId) -> list[KeyLine]:
    """Return the keys issued for an application, and the keys that replaced them by rotation."""
    lines: list[KeyLine] = list(rows.api_keys.of_application(signup_id))
    # The loop also visits the keys that it appends.
    for line in lines:
        if line.replaced_by is not None:
            successor = rows.api_keys.get(line.replaced_by)
            assert successor is not None, "keys are never deleted"
            lines.append(successor)
    return sorted(lines, key=lambda line: line.key_id)


def revoke_issued(rows: AccountRows, signup_id: SignupId, actor: Actor, at: UnixMs) -> None:
    """Revoke the keys issued for an application, and the keys that replaced them by rotation."""
    for line in issued_keys(rows, signup_id):
        if line.revoked_at is None:
            rows.api_keys.update(line.key_id, revoked_at=at)
            because = subject_of(signup_id)
            rows.events.note(at, actor, "revoked", f"key:{line.key_id}", because=because)


class NotPossible(Exception):
    """The action is not possible; the message has the reason, such as the expected state."""


def expect_administrator(rows: AccountRows, reviewer: Reviewer) -> Actor:
    """Return the audit-log name of *reviewer*.

    An actor that is not a session, such as a command, is returned unchanged.  Raises SessionEnded
    if the session has ended or its person is no administrator.
    """
    if not isinstance(reviewer, Session):
        return reviewer
    user = expect_session(rows, reviewer)
    if not user.is_administrator:
        raise SessionEnded
    return user_actor(user.user_id)


def expect_removable(rows: AccountRows, user: User) -> None:
    """Raise NotPossible if *user* is the last administrator, or has a payment in progress."""
    if rows.credits.is_paid_for(user.user_id):
        raise NotPossible(
            f"{user.username} has a payment in progress. Its outcome is usually known within three"
            " minutes: try again then"
        )
    if user.is_administrator and set(rows.users.administrators()) == {user.user_id}:
        raise NotPossible(
            f"{user.username} is the last administrator: make another account an administrator"
            " first"
        )


def remove_user(rows: AccountRows, user_id: UserId, reviewer: Reviewer, at: UnixMs) -> None:
    """Remove an account.

    Raises    NotPossible if there is no such account, if it is the last administrator's, or if a
              payment of its user is in progress; SessionEnded if the session of *reviewer* has
              ended or its person is no administrator
    """
    actor = expect_administrator(rows, reviewer)
    kept = rows.users.get(user_id)
    if kept is None:
        raise NotPossible(f"there is no account with the number {user_id}")
    expect_removable(rows, kept.user)
    remove(rows, kept.user, actor, at)


CAPPED: Final = "capped"  # the action in the audit log: the cap of a key was changed
NETWORKS_CHANGED: Final = "changed networks"  # the action in the audit log
CLAIMED: Final = "claimed"  # the action in the audit log: on a key or application of an agent
SPEND_ALERT_SET: Final = "set spend alert"  # the action in the audit log
EVENTS_AT_ONCE: Final = 100  # events read at once in the search for earlier changes
NOTICES_MAX: Final = 20  # the most e-mails of one kind to an owner in a day
TAKEN_BACK: Final = "the account was taken back"
RESET: Final = "reset password"  # the action in the audit log: set without the former password
TOOK_BACK: Final = "took account back"  # the action in the audit log
RESET_BACK_MS: Final = Purpose.UNDO_EMAIL.lifetime_ms  # how far back a reset can undo changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The numbers of items that the recovery of an account has ended or undone, by kind.

    factors    removed authenticator apps and passkeys
    webhooks   stopped webhooks whose address had been changed
    caps       restored caps of API keys
    spending   restored spend alerts
    """

    sessions: int = 0
    keys: int = 0
    factors: int = 0
    wallets: int = 0
    alerts: int = 0
    webhooks: int = 0
    caps: int = 0
    chats: int = 0
    spending: int = 0


def end_since(rows: AccountRows, user_id: UserId, since: UnixMs, at: UnixMs) -> Ended:
    """End every session, and undo changes of the user that were made at *since* or later.

    Added factors, wallets, alerts and Telegram chats are removed.  Added keys, and keys with
    changed networks, are revoked.  Changed webhooks are stopped.  Changed caps and spend alerts are
    restored.  The keys, wallets and webhooks of a claimed agent count as added or changed at the
    claim.  Applications that were added with their first key, or with a claimed agent, are deleted.
    All other changes stay, such as deletions.
    """
    sessions = end_sessions(rows, user_id)
    app = rows.apps.of_user(user_id)
    # Counted before they are removed.
    factors = int(app is not None and app.made_at >= since)
    factors += sum(each.made_at >= since for each in rows.passkeys.of_user(user_id))
    drop_factors(rows, user_id, since=since)
    caps, keys = _end_keys(rows, user_id, since, at)
    _end_applications(rows, user_id, since, at)
    wallets = [each for each in rows.wallets.of_user(user_id) if each.linked_at >= since]
    for linked in wallets:
        rows.wallets.unlink(user_id, linked.wallet)
    alerts, webhooks = _end_alerts(rows, user_id, since, at)
    chat = rows.chats.chat(user_id)
    is_theirs = chat is not None and chat.linked_at >= since
    if is_theirs:
        unlink_telegram(rows, user_id, user_actor(user_id), at)
    is_changed, level = _credits_before(rows, f"user:{user_id}", SPEND_ALERT_SET, since)
    if is_changed:
        # If the spend alert was removed, today's spending counts as not reported yet.
        rows.credits.set_spend_level(user_id, level, at // DAY_MS - 1)
    return Ended(
        sessions=sessions,
        keys=keys,
        factors=factors,
        wallets=len(wallets),
        alerts=alerts,
        webhooks=webhooks,
        caps=caps,
        chats=int(is_theirs),
        spending=int(is_changed),
    )


def _end_keys(rows: AccountRows, user_id: UserId, since: UnixMs, at: UnixMs) -> tuple[int, int]:
    """Undo the changes of keys from *since* on; return the numbers of caps restored and keys ended.

    Changed caps are restored.  Keys created or claimed at *since* or later are revoked.  So are
    keys whose networks the owner changed at *since* or later, because the earlier networks are not
    stored.
    """
    caps = keys = 0
    for key in rows.api_keys.shown(user_id, at, KEYS_SHOWN_MAX):
        if key.revoked_at is not None:
            continue
        # A key can only narrow networks, which gives no access, so its changes need no undo.
        subject = f"key:{key.key_id}"
        is_given = any(
            _has_done(rows, user_id, each, subject, since) for each in (CLAIMED, NETWORKS_CHANGED)
        )
        if key.created_at >= since or is_given:
            rows.api_keys.update(key.key_id, revoked_at=at)
            keys += 1
        else:
            is_changed, cap = _credits_before(rows, subject, CAPPED, since)
            if is_changed:
                rows.api_keys.update(key.key_id, month_credits_max=cap)
                caps += 1
    return caps, keys


def _end_applications(rows: AccountRows, user_id: UserId, since: UnixMs, at: UnixMs) -> None:
    """Delete the applications that were added to the account at *since* or later.

    Otherwise, the secret of such an application could be exchanged for a key of the account.
    """
    for kept in rows.applications.of_user(user_id):
        signup_id = kept.application.signup_id
        first = issued_keys(rows, signup_id)[0]
        is_claimed = _has_done(rows, user_id, CLAIMED, subject_of(signup_id), since)
        if first.created_at >= since or is_claimed:
            forget(rows, signup_id, "forgotten", user_actor(user_id), at)


def _has_done(rows: AccountRows, user_id: UserId, action: str, subject: str, since: UnixMs) -> bool:
    """Return whether the user, not a key, did *action* to *subject* at *since* or later."""
    owner = user_actor(user_id)
    changes = _changes_of(rows, subject, action)
    newest_at = next((event.at for event in changes if event.actor == owner), None)
    return newest_at is not None and newest_at >= since


def _credits_before(
    rows: AccountRows, subject: str, action: str, since: UnixMs
) -> tuple[bool, int | None]:
    """Return whether *action* changed a limit of credits of *subject* at *since* or later.

    Also return the limit that applied before *since*; None: there was no limit.
    """
    is_changed = False
    for event in _changes_of(rows, subject, action):
        if event.at < since:
            before = event.detail["credits"]
            return is_changed, None if before == "none" else int(before)
        is_changed = True
    return is_changed, None


def _changes_of(rows: AccountRows, subject: str, action: str) -> Iterator[Event]:
    """Yield the events of the audit log about *action* on *subject*, newest first."""
    wanted = EventFilter(who=subject, action=action)
    before: int | None = None
    while page := rows.events.newest(before, EVENTS_AT_ONCE, wanted):
        before = page[-1][0]
        for _, event in page:
            # The filter also finds events that the subject, such as a key, has caused.
            if event.subject == subject:
                yield event


def _end_alerts(rows: AccountRows, user_id: UserId, since: UnixMs, at: UnixMs) -> tuple[int, int]:
    """Delete the user's alerts that were created at *since* or later; return their number.

    Also stop the webhooks that were changed at *since* or later, and return their number as the
    second number.
    """
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
        rows.lease.touch()
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
    """Write an e-mail with an undo link to the owner, about a change in the account.

    E-mails to agents and to unverified addresses, which may be a stranger's, have no such link.
    If the limit of e-mails of *kind* to the owner in a day is reached, nothing is written.

    nonce   random bytes from which the undo link is derived
    since   the beginning of the session of the change: the undo link undoes changes from then on
    """
    if owner.verified_at is None:
        rows.emails.tell_owner(owner, kind, facts, at)
        return
    if len(rows.emails.written_to(owner.email, kind, UnixMs(at - DAY_MS))) >= NOTICES_MAX:
        return  # the owner already got enough e-mails of this kind
    proof_id = None
    if owner.kind is UserKind.PERSON:
        proof_id = rows.proofs.insert(
            NewProof(Purpose.UNDO_EMAIL, owner.user_id, owner.email, nonce, at, since)
        )
    rows.emails.insert(kind, owner.email, facts, proof_id, at)
